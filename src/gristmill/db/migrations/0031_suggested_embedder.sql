-- A better embedder is suggested once, by an event.
alter table base add column suggested_embedder text; -- which embedder the last event suggested; null: none
