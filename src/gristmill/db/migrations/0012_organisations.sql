-- Who comes in: organisations, their keys and sessions, what they asked for, and whose everything is.

-- Nothing of one organisation is visible or countable from another.
create table organisation (
    id              uuid primary key default uuidv7(),
    name            text not null,
    created_at      timestamptz not null default clock_now()
);
create unique index organisation_name on organisation (lower(name));
-- The one that is there from the start: callers without a key belong to it, and all that was made before.
insert into organisation (id, name) values ('00000000-0000-7000-8000-000000000001', 'local');

-- Whose a lane is: a base's under its id, a webhook's under webhook:{id}, a connector's under connector:{id}. It outlives what it stands for, because jobs and
-- events about that do so too.
create table owner (
    lane            text primary key,
    org_id          uuid not null references organisation
);
create index owner_org on owner (org_id);
insert into owner (lane, org_id) values ('reconcile', '00000000-0000-7000-8000-000000000001');

alter table base add column org_id uuid not null default '00000000-0000-7000-8000-000000000001' references organisation;
drop index base_name;
create unique index base_name on base (org_id, lower(name)) where status <> 'deleting';
create index base_org on base (org_id, id);
insert into owner (lane, org_id) select id::text, org_id from base;

create function base_owned() returns trigger language plpgsql as $$
begin
    insert into owner (lane, org_id) values (new.id::text, new.org_id) on conflict do nothing;
    return null;
end $$;
create trigger base_owned after insert on base for each row execute function base_owned();

-- Items with a list of their own: few, and all that has to be looked at to know whether a base hides something.
create index item_listed on item (base_id) where acl is not null;

alter table webhook add column org_id uuid not null default '00000000-0000-7000-8000-000000000001' references organisation;
create index webhook_org on webhook (org_id, id);
insert into owner (lane, org_id) select 'webhook:' || id, org_id from webhook;

-- A connector feeds bases of its own organisation alone.
alter table connector add column org_id uuid not null default '00000000-0000-7000-8000-000000000001' references organisation;
drop index connector_name;
create unique index connector_name on connector (org_id, lower(name));
create index connector_org on connector (org_id, id);
insert into owner (lane, org_id) select 'connector:' || id, org_id from connector;

-- ── events, numbered for each organisation ───────────────────────────────────────────────────────────────

-- `seq` is the order of all, and stays inside; `place` is the order within an organisation, and is all that is shown:
-- numbers that everybody shares would tell each how much the others do.
alter table outbox add column org_id uuid;
update outbox o set org_id = coalesce((select w.org_id from owner w where w.lane = o.base_id::text),
                                      '00000000-0000-7000-8000-000000000001');
alter table outbox alter column org_id set not null;
alter table event add column org_id uuid;
alter table event add column place bigint;
update event set org_id = '00000000-0000-7000-8000-000000000001', place = seq;
alter table event alter column org_id set not null, alter column place set not null;
create unique index event_org_place on event (org_id, place);
create index event_of_base_place on event (base_id, place);
drop index event_of_base;

create table event_place (
    org_id          uuid primary key references organisation,
    place           bigint not null
);
insert into event_place (org_id, place) select '00000000-0000-7000-8000-000000000001', seq from event_head;

create or replace function event_sequence(p_limit int) returns int language plpgsql as $$
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
    insert into event (seq, org_id, place, base_id, type, subject, cause, data, at)
    select v_last + row_number() over (order by t.n), t.org_id,
           coalesce(p.place, 0) + row_number() over (partition by t.org_id order by t.n),
           t.base_id, t.type, t.subject, t.cause, t.data, t.at
      from taken t left join event_place p on p.org_id = t.org_id order by t.n;
    insert into event_place (org_id, place)
    select e.org_id, max(e.place) from event e where e.seq > v_last group by e.org_id
        on conflict (org_id) do update set place = excluded.place;
    return cardinality(v_rows);
end $$;

-- ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────

create table api_key (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    name            text not null,
    prefix          text not null,              -- the beginning of the secret, to know it by
    hash            bytea not null unique,      -- SHA-256 of the secret, which is random enough for that
    role            text not null check (role in ('admin', 'editor', 'reader')),
    email           text,                       -- the principal whose eyes the key has
    teams           text[] not null default '{}',
    groups          text[] not null default '{}',
    expires_at      timestamptz,
    last_used_at    timestamptz,                -- to the minute
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create index api_key_org on api_key (org_id, id);

-- A browser that a key let in. It ends with its key.
create table session (
    hash            bytea primary key,          -- SHA-256 of what the cookie holds
    key_id          uuid not null references api_key on delete cascade,
    expires_at      timestamptz not null,
    created_at      timestamptz not null default clock_now()
);
create index session_key on session (key_id);

-- ── what was asked ───────────────────────────────────────────────────────────────────────────────────────

-- Every request that may change something, from before it is served: status is null until it is answered.
create table audit (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    at              timestamptz not null default clock_now(),
    actor           text not null,              -- key:{prefix}, session:{prefix}, local, or cli
    key_id          uuid,                       -- no foreign key: the log outlives keys
    role            text not null,
    method          text not null,
    path            text not null,
    client          text,
    status          int,
    took_ms         int
);
create index audit_org on audit (org_id, id);
create index audit_at on audit (at);

-- Requests with an Idempotency-Key. running → done (in the transaction that did it) → answered.
-- One that is running under another token was given up by its process, or is a second of the same at once.
create table idempotency (
    org_id          uuid not null references organisation,
    caller          text not null,              -- the key's id, or local
    key             text not null,
    token           uuid not null,              -- who works on it: its write is refused when another took over
    fingerprint     bytea not null,             -- of the request
    state           text not null check (state in ('running', 'done', 'answered')),
    status          int,
    answer          bytea,                      -- sealed by the vault: a new key's secret is in it
    at              timestamptz not null default clock_now(),
    primary key (org_id, caller, key)
);
create index idempotency_at on idempotency (at);
