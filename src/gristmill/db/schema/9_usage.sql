-- What was embedded and what it cost, and the budgets and quotas that limit it.

-- owner: usage
-- Counters by day, base, caller and kind of work, written in the transaction that writes the chunks. Each process adds to rows of a
-- shard of its own, so that workers don't wait for each other.
create table usage_day (
    base_id         uuid not null,              -- no foreign key: what was spent stays when the base is deleted
    day             date not null,              -- UTC
    caller          text not null,              -- local, key:{id}, user_email:{email}, connector:{name} or system
    kind            text not null check (kind in ('index', 'image', 'swap', 'move', 'vision', 'chat', 'query')),
    model           text not null,
    shard           smallint not null,
    org_id          uuid not null references organisation,
    texts           bigint not null,            -- embedded texts; described images, answers, queries
    tokens          bigint not null,
    cost            numeric(24, 10) not null,   -- in the currency of the prices; 0 where no price is known
    primary key (base_id, day, caller, kind, model, shard)
) with (fillfactor = 70);
create index usage_day_org on usage_day (org_id, day);

-- owner: usage
-- Who made the request that items follow from (`item.cause`).
create table request_caller (
    cause           uuid primary key,
    caller          text not null,
    at              timestamptz not null default clock_now()
);

-- owner: usage
-- A budget limits what may be spent: what exceeds it waits. A quota limits what may be stored: what exceeds it is refused.
create table usage_limit (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    base_id         uuid references base on delete cascade,     -- null: the whole organisation
    kind            text not null check (kind in ('budget', 'quota')),
    measure         text not null check (measure in ('chunks', 'tokens', 'money', 'items', 'bytes')),
    period          text not null check (period in ('month', 'total')),
    amount          numeric(24, 6) not null check (amount >= 0),
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now(),
    check (case kind when 'budget' then measure in ('chunks', 'tokens', 'money')
                     else measure in ('items', 'bytes', 'chunks') and period = 'total' end)
);
create unique index usage_limit_scope on usage_limit (org_id, base_id, kind, measure, period) nulls not distinct;
create index usage_limit_base on usage_limit (base_id) where base_id is not null;

-- owner: usage
-- What a worker is about to spend. A row counts while its job has this lease: that of a dead worker is given back by itself.
create table usage_reservation (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null,
    base_id         uuid not null,
    job_id          uuid not null,
    lease           uuid not null,
    texts           int not null,
    tokens          bigint not null,
    cost            numeric(24, 10) not null
);
create index usage_reservation_base on usage_reservation (base_id);
create index usage_reservation_org on usage_reservation (org_id);
