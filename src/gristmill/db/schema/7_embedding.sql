-- Rate limits of embedding providers, shared by the workers of all machines. Unlogged, because what a crash of the server
-- loses is relearned within a minute.

-- owner: embedding
create unlogged table provider (
    key          text primary key,             -- a hash of endpoint and API key: no secret is stored
    requests     double precision not null,    -- requests that may be sent now
    tokens       double precision not null,    -- tokens that may be sent now
    refilled_at  timestamptz not null default clock_now(),
    paused_until timestamptz not null default '-infinity',
    concurrency  double precision not null,    -- parallel requests that the provider seems to bear
    strikes      int not null default 0        -- consecutive requests to slow down
);

-- owner: embedding
-- The share of one process. The share of a process that is gone expires.
create unlogged table provider_portion (
    provider   text not null references provider (key) on delete cascade,
    holder     uuid not null,
    slots      int not null,                   -- 0 while it only waits: the others make room when they renew
    expires_at timestamptz not null,
    primary key (provider, holder)
);

-- owner: embedding
-- An embedder that an organisation made. Its name is free among the built-in ones and those of the settings, and unique in
-- the organisation; bases refer to it by name.
create table embedder (
    id          uuid primary key,
    org_id      uuid not null references organisation,
    name        text not null,
    kind        text not null,                 -- one of the registry: openai
    config      jsonb not null,                -- everything but the key: address, model, limits …
    api_key     bytea,                         -- encrypted by the vault; null: the endpoint needs none
    private     boolean not null default false, -- the local user gave the address, so it may be a private one
    revision    bigint not null default 1,     -- rises with every change: processes compare it with what they loaded
    created_at  timestamptz not null default clock_now(),
    updated_at  timestamptz not null default clock_now()
);
create unique index embedder_name on embedder (org_id, lower(name));

-- owner: embedding
-- The embedder of new bases of an organisation that chose one; without a row, that of the settings.
create table default_embedder (
    org_id      uuid primary key references organisation,
    name        text not null
);
