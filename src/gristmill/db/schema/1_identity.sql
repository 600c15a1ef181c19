-- Organisations, their users, groups, keys and sessions, the audit log, and idempotent requests.

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
-- People. One who is not active can do nothing: their keys and sessions are refused from the next request on.
create table user_account (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    user_name       text not null,              -- the name at the identity provider, most often the address
    email           text not null,              -- in lower case; the user is user_email:{email} and user:{id} in access lists
    name            text not null,
    role            text not null check (role in ('admin', 'editor', 'reader')),
    active          boolean not null default true,
    source          text not null check (source in ('local', 'oidc', 'scim')),
    external_id     text,                       -- the id that the provider uses over SCIM
    subject         text,                       -- issuer and subject at the OpenID provider
    password_hash   text,                       -- argon2id
    signed_in_at    timestamptz,
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create unique index user_account_email on user_account (org_id, email);
create unique index user_account_user_name on user_account (org_id, lower(user_name));
create unique index user_account_external on user_account (org_id, external_id) where external_id is not null;
create unique index user_account_subject on user_account (org_id, subject) where subject is not null;
create index user_account_org on user_account (org_id, id);

-- owner: identity
-- Groups are group:{id} in access lists, as they are: a list does not name their members.
create table user_group (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    name            text not null,
    source          text not null check (source in ('local', 'oidc', 'scim')),
    external_id     text,                       -- the id that the provider uses
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create unique index user_group_name on user_group (org_id, lower(name));
create unique index user_group_external on user_group (org_id, external_id) where external_id is not null;
create index user_group_org on user_group (org_id, id);

-- owner: identity
-- The members of a group: users and other groups.
create table group_member (
    group_id        uuid not null references user_group on delete cascade,
    user_id         uuid references user_account on delete cascade,
    child_id        uuid references user_group on delete cascade,
    source          text not null check (source in ('local', 'oidc', 'scim')),
    check (num_nonnulls(user_id, child_id) = 1)
);
create unique index group_member_user on group_member (user_id, group_id) where user_id is not null;
create unique index group_member_child on group_member (child_id, group_id) where child_id is not null;
create index group_member_group on group_member (group_id, user_id, child_id);

-- owner: identity
-- A key of a user acts as that user and ends with them.
create table api_key (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    name            text not null,
    prefix          text not null,              -- the first characters of the secret, to recognise the key by
    hash            bytea not null unique,      -- SHA-256 of the secret; the secret is random, so no salt is needed
    role            text not null check (role in ('admin', 'editor', 'reader', 'scim')),
    user_id         uuid references user_account on delete cascade,
    email           text,                       -- without a user: the principal that the key acts as, with its teams and groups
    teams           text[] not null default '{}',
    groups          text[] not null default '{}',
    expires_at      timestamptz,
    last_used_at    timestamptz,                -- to the minute
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create index api_key_org on api_key (org_id, id);
create index api_key_user on api_key (user_id) where user_id is not null;

-- owner: identity
-- A signed-in browser. The session ends with its key or its user.
create table session (
    hash            bytea primary key,          -- SHA-256 of the cookie's value
    key_id          uuid references api_key on delete cascade,
    user_id         uuid references user_account on delete cascade,
    expires_at      timestamptz not null,
    last_used_at    timestamptz not null default clock_now(),   -- to the minute
    created_at      timestamptz not null default clock_now(),
    constraint session_holder check (num_nonnulls(key_id, user_id) = 1)
);
create index session_key on session (key_id);
create index session_user_id on session (user_id) where user_id is not null;

-- owner: identity
-- Sign-ins that have gone to the OpenID provider and have not come back. Each row is used once.
create table pending_sign_in (
    state           bytea primary key,          -- SHA-256 of the state parameter
    browser         bytea not null,             -- SHA-256 of the cookie of the browser that began
    nonce           text not null,
    verifier        text not null,              -- of PKCE; useless without the code
    next_path       text not null,
    expires_at      timestamptz not null
);
create index pending_sign_in_expiry on pending_sign_in (expires_at);

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
    took_ms         int,
    base_id         uuid                        -- that it was about, if it names one; no foreign key: the log outlives bases
);
create index audit_org on audit (org_id, id);
create index audit_at on audit (at) where base_id is null;
create index audit_base on audit (base_id, at) where base_id is not null;

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
