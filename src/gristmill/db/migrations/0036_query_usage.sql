-- The queries of searches are counted in the ledger. They are no chunks, so that budgets of chunks and tokens leave them out.
alter table usage_day drop constraint usage_day_kind_check;
alter table usage_day add constraint usage_day_kind_check
    check (kind in ('index', 'image', 'swap', 'move', 'vision', 'chat', 'query'));

create or replace function budget_spent(p_limit usage_limit) returns numeric language sql stable as $$
    select coalesce(case p_limit.measure
                    when 'chunks' then sum(u.texts) filter (where u.kind not in ('vision', 'chat', 'query'))
                    when 'tokens' then sum(u.tokens) filter (where u.kind not in ('vision', 'chat', 'query'))
                    else sum(u.cost) end, 0)
      from usage_day u
     where u.org_id = p_limit.org_id and (p_limit.base_id is null or u.base_id = p_limit.base_id)
       and (p_limit.period = 'total' or u.day >= usage_period_start(p_limit.period))
$$;
