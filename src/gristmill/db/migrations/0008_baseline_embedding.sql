-- Part of the schema of the first release. Frozen: read schema/ and functions/ instead.
create unlogged table provider (
    key          text primary key,             -- a hash of endpoint and API key: no secret is stored
    requests     double precision not null,    -- requests that may be sent now
    tokens       double precision not null,    -- tokens that may be sent now
    refilled_at  timestamptz not null default clock_now(),
    paused_until timestamptz not null default '-infinity',
    concurrency  double precision not null,    -- parallel requests that the provider seems to bear
    strikes      int not null default 0        -- consecutive requests to slow down
);
create unlogged table provider_portion (
    provider   text not null references provider (key) on delete cascade,
    holder     uuid not null,
    slots      int not null,                   -- 0 while it only waits: the others make room when they renew
    expires_at timestamptz not null,
    primary key (provider, holder)
);
