-- How much of a budget or a quota is used.

-- When the current period of a limit began; null for one in all.
create function usage_period_start(p_period text) returns date language sql stable as $$
    select case when p_period = 'month' then date_trunc('month', clock_now() at time zone 'utc')::date end
$$;

-- What was spent of a budget in its period.
create function budget_spent(p_limit usage_limit) returns numeric language sql stable as $$
    select coalesce(case p_limit.measure
                    when 'chunks' then sum(u.texts) filter (where u.kind not in ('vision', 'chat', 'query'))
                    when 'tokens' then sum(u.tokens) filter (where u.kind not in ('vision', 'chat', 'query'))
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
