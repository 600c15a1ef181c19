-- Who may ask an embedding provider how much: shared by all workers of all machines. Unlogged, because whatever is lost
-- with a crash of the server is known again a minute later.

create unlogged table provider (
    key          text primary key,             -- a hash of endpoint and API key, so that no secret is in it
    requests     double precision not null,    -- how many requests, and tokens below, may be sent now
    tokens       double precision not null,
    refilled_at  timestamptz not null default clock_now(),
    paused_until timestamptz not null default '-infinity',
    concurrency  double precision not null,    -- requests at once, as the provider seems to bear them
    strikes      int not null default 0        -- times in a row that it asked for time
);

-- What one process holds of it. A holder that is gone lets its portion run out.
create unlogged table provider_portion (
    provider   text not null references provider (key) on delete cascade,
    holder     uuid not null,
    slots      int not null,                   -- 0 while it only waits: the others make room when they renew
    expires_at timestamptz not null,
    primary key (provider, holder)
);
