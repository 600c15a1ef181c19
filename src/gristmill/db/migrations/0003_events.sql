-- What is announced: written with the change it tells of, put in order afterwards.

-- Whether all that the base was given has been announced as ingested; false from the next piece of work on.
alter table base add column ingested boolean not null default false;

-- The request, run or rebuild that last wanted the item: its events carry it.
alter table item add column cause uuid;

-- Events as transactions leave them. `n` is drawn when the row is written, so that of two events of which one
-- follows from the other, the cause has the smaller one; which of two unrelated ones is smaller says nothing.
create table outbox (
    n               bigint generated always as identity primary key,
    base_id         uuid,
    type            text not null,
    subject         uuid,                       -- the item, or whatever else it is about
    cause           uuid,
    data            jsonb not null default '{}',
    at              timestamptz not null default clock_now()
);

-- Events as they are read: `seq` has no holes, and nothing is ever put in before what a reader has seen.
create table event (
    seq             bigint primary key,
    base_id         uuid,
    type            text not null,
    subject         uuid,
    cause           uuid,
    data            jsonb not null,
    at              timestamptz not null
);
create index event_of_base on event (base_id, seq);
create index event_at on event using brin (at) with (pages_per_range = 16, autosummarize = on);

-- The last number that was given. A row and not max(seq): old events are swept.
create table event_head (seq bigint not null);
insert into event_head values (0);

-- Give the events that are committed by now their place, in the order in which they were written; how many, or -1
-- when another is at it. One that commits later comes later, whatever its n: a cursor never passes it.
create function event_sequence(p_limit int) returns int language plpgsql as $$
declare
    v_rows bigint[];
    v_last bigint;
begin
    if not pg_try_advisory_xact_lock(hashtext('gristmill.events')) then
        return -1;
    end if;
    v_rows := array(select o.n from outbox o order by o.n limit p_limit);
    if v_rows = '{}' then
        return 0;
    end if;
    update event_head h set seq = h.seq + cardinality(v_rows) returning h.seq - cardinality(v_rows) into v_last;
    with taken as (
        delete from outbox o where o.n = any (v_rows) returning o.*)
    insert into event (seq, base_id, type, subject, cause, data, at)
    select v_last + row_number() over (order by t.n), t.base_id, t.type, t.subject, t.cause, t.data, t.at
      from taken t order by t.n;
    return cardinality(v_rows);
end $$;

-- Whether a base has just become ready: nothing in it is active, and this was not announced yet. Whoever ends work
-- on a base's items asks last before its commit. They take turns, so that of two that end the last two items the
-- second sees what the first did; the lock comes first and the look after it, with a newer snapshot.
create function base_became_ready(p_base uuid, out completed int, out failed int) returns record language plpgsql as $$
begin
    perform pg_advisory_xact_lock(hashtextextended(p_base::text, 1701147252));
    if exists (select from item i where i.base_id = p_base
                  and i.status in ('idle', 'preparing', 'processing', 'reading', 'embedding')) then
        return;
    end if;
    update base b set ingested = true where b.id = p_base and not b.ingested and b.status <> 'deleting'
       and exists (select from item i where i.base_id = p_base and i.status in ('completed', 'failed'));
    if found then
        select count(*) filter (where i.status = 'completed'), count(*) filter (where i.status = 'failed')
          into completed, failed
          from item i where i.base_id = p_base and i.type not in ('directory', 'sitemap', 'connector');
    end if;
end $$;
