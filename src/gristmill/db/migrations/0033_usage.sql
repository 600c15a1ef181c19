-- What was embedded and what it cost, budgets and quotas; actions of the audit log.

-- owner: usage
-- Counters by day, base, caller and kind of work, written in the transaction that writes the chunks. Each process adds to rows of a
-- shard of its own, so that workers don't wait for each other.
create table usage_day (
    base_id         uuid not null,              -- no foreign key: what was spent stays when the base is deleted
    day             date not null,              -- UTC
    caller          text not null,              -- local, key:{id}, user_email:{email}, connector:{name} or system
    kind            text not null check (kind in ('index', 'image', 'swap', 'move', 'vision', 'chat')),
    model           text not null,
    shard           smallint not null,
    org_id          uuid not null references organisation,
    texts           bigint not null,            -- embedded texts; described images, answers
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

-- When the current period of a limit began; null for one in all.
create function usage_period_start(p_period text) returns date language sql stable as $$
    select case when p_period = 'month' then date_trunc('month', clock_now() at time zone 'utc')::date end
$$;

-- What was spent of a budget in its period.
create function budget_spent(p_limit usage_limit) returns numeric language sql stable as $$
    select coalesce(case p_limit.measure
                    when 'chunks' then sum(u.texts) filter (where u.kind not in ('vision', 'chat'))
                    when 'tokens' then sum(u.tokens) filter (where u.kind not in ('vision', 'chat'))
                    else sum(u.cost) end, 0)
      from usage_day u
     where u.org_id = p_limit.org_id and (p_limit.base_id is null or u.base_id = p_limit.base_id)
       and (p_limit.period = 'total' or u.day >= usage_period_start(p_limit.period))
$$;

-- What workers are about to spend of a budget. A reservation counts while its job has the lease that it was made with.
create function budget_reserved(p_limit usage_limit) returns numeric language sql stable as $$
    select coalesce(sum(case p_limit.measure when 'chunks' then r.texts when 'tokens' then r.tokens else r.cost end), 0)
      from usage_reservation r
     where r.org_id = p_limit.org_id and (p_limit.base_id is null or r.base_id = p_limit.base_id)
       and exists (select from job j where j.id = r.job_id and j.lease = r.lease and j.state = 'running')
$$;

-- What is stored of what a quota limits.
create function quota_used(p_limit usage_limit) returns numeric language sql stable as $$
    select coalesce(case p_limit.measure when 'items' then count(*) when 'bytes' then sum(i.size_bytes) else sum(i.chunk_count) end, 0)
      from item i join base b on b.id = i.base_id
     where b.org_id = p_limit.org_id and (p_limit.base_id is null or b.id = p_limit.base_id)
       and i.status <> 'deleting' and not i.is_container and i.error_code is distinct from 'quota_exceeded'
$$;

-- What a request of the audit log did: sign_in, export, read or change. `GET` is written only for exports, and for reads if the
-- setting `audit_reads` says so; searches and questions are reads that are sent by POST.
create function audit_action(p_method text, p_path text) returns text language sql immutable as $$
    select case when p_path = '/api/session' or p_path like '/api/sign-in%' then 'sign_in'
                when p_method in ('GET', 'HEAD') and p_path ~ '(/original|/export|^/api/audit|^/api/usage)$' then 'export'
                when p_method in ('GET', 'HEAD') or p_method = 'POST' and p_path ~ '(/search|/why-not|^/api/ask|/chat/completions|/dify/retrieval)$' then 'read'
                else 'change' end
$$;
