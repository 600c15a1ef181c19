-- A run and a refresh of permissions may be under way at the same time: an older answer of the tool must not replace a newer one.
alter table connector_document add column audience_as_of timestamptz not null default '-infinity';
