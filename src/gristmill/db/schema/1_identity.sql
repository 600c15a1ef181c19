-- Organisations, their keys and sessions, the audit log, and idempotent requests.

-- owner: identity
-- Nothing of one organisation is visible to, or countable from, another.
create table organisation (
    id              uuid primary key default uuidv7(),
    name            text not null,
    created_at      timestamptz not null default clock_now()
);
create unique index organisation_name on organisation (lower(name));
-- The organisation of callers without a key.
insert into organisation (id, name) values ('00000000-0000-7000-8000-000000000001', 'local');

-- owner: identity
create table api_key (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    name            text not null,
    prefix          text not null,              -- the first characters of the secret, to recognise the key by
    hash            bytea not null unique,      -- SHA-256 of the secret; the secret is random, so no salt is needed
    role            text not null check (role in ('admin', 'editor', 'reader')),
    email           text,                       -- the principal that the key acts as, with its teams and groups
    teams           text[] not null default '{}',
    groups          text[] not null default '{}',
    expires_at      timestamptz,
    last_used_at    timestamptz,                -- to the minute
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create index api_key_org on api_key (org_id, id);

-- owner: identity
-- A signed-in browser. The session ends with its key.
create table session (
    hash            bytea primary key,          -- SHA-256 of the cookie's value
    key_id          uuid not null references api_key on delete cascade,
    expires_at      timestamptz not null,
    created_at      timestamptz not null default clock_now()
);
create index session_key on session (key_id);

-- owner: identity
-- Every request that may change something, written before it is served; status is null until it is answered.
create table audit (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    at              timestamptz not null default clock_now(),
    actor           text not null,              -- key:{prefix}, session:{prefix}, local or cli
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

-- owner: identity
-- Requests with an Idempotency-Key: running → done (in the transaction that made the change) → answered.
-- A row that is running under another token is a concurrent repetition, or was abandoned by its process.
create table idempotency (
    org_id          uuid not null references organisation,
    caller          text not null,              -- the key's id, or local
    key             text not null,
    token           uuid not null,              -- the attempt that owns the row; writes with another token are refused
    fingerprint     bytea not null,             -- of the request
    state           text not null check (state in ('running', 'done', 'answered')),
    status          int,
    answer          bytea,                      -- encrypted by the vault: it may contain a new key's secret
    at              timestamptz not null default clock_now(),
    primary key (org_id, caller, key)
);
create index idempotency_at on idempotency (at);

-- owner: identity
-- Sealing keys that sealed nothing any more when they were dropped. A process that still seals with one is refused, so that no
-- secret is lost with its key.
create table retired_sealing_key (
    id              bytea primary key,          -- the id that sealed values begin with; the key can't be computed from it
    retired_at      timestamptz not null default clock_now()
);
