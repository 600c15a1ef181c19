-- Statements of the usage ledger, of limits and of reservations.

-- name: record_usage
-- Adds what was embedded for items to the counters of their bases and of the callers that they follow from.
insert into usage_day as d (base_id, day, caller, kind, model, shard, org_id, texts, tokens, cost)
select i.base_id, (clock_now() at time zone 'utc')::date,
       coalesce(c.caller, (select 'connector:' || n.name from connector_run r join connector n on n.id = r.connector_id
                            where r.id = i.cause), 'system') as caller,
       u.kind, u.model, %(shard)s::smallint, b.org_id, sum(u.texts), sum(u.tokens), sum(u.cost)
  from unnest(%(items)s::uuid[], %(kinds)s::text[], %(models)s::text[], %(texts)s::bigint[], %(tokens)s::bigint[],
              %(costs)s::numeric[]) u(item, kind, model, texts, tokens, cost)
  join item i on i.id = u.item join base b on b.id = i.base_id left join request_caller c on c.cause = i.cause
 group by 1, 2, 3, 4, 5, b.org_id order by 1, 2, 3, 4, 5
on conflict (base_id, day, caller, kind, model, shard) do update
   set texts = d.texts + excluded.texts, tokens = d.tokens + excluded.tokens, cost = d.cost + excluded.cost;

-- name: record_base_usage
-- Adds what was spent for a base as a whole.
insert into usage_day as d (base_id, day, caller, kind, model, shard, org_id, texts, tokens, cost)
values (%(base)s, (clock_now() at time zone 'utc')::date,
        coalesce(%(caller)s::text, (select c.caller from request_caller c where c.cause = %(cause)s), 'system'),
        %(kind)s, %(model)s, %(shard)s, %(org)s, %(texts)s, %(tokens)s, %(cost)s)
on conflict (base_id, day, caller, kind, model, shard) do update
   set texts = d.texts + excluded.texts, tokens = d.tokens + excluded.tokens, cost = d.cost + excluded.cost;

-- name: record_queries
-- Adds what searches have embedded to the counters.
insert into usage_day as d (base_id, day, caller, kind, model, shard, org_id, texts, tokens, cost)
select u.base, (clock_now() at time zone 'utc')::date, u.caller, 'query', u.model, %(shard)s::smallint, u.org, u.texts, u.tokens, u.cost
  from unnest(%(orgs)s::uuid[], %(bases)s::uuid[], %(callers)s::text[], %(models)s::text[], %(texts)s::bigint[], %(tokens)s::bigint[],
              %(costs)s::numeric[]) u(org, base, caller, model, texts, tokens, cost)
 order by u.base, u.caller, u.model
on conflict (base_id, day, caller, kind, model, shard) do update
   set texts = d.texts + excluded.texts, tokens = d.tokens + excluded.tokens, cost = d.cost + excluded.cost;

-- name: name_caller
-- Records who made the request that items follow from.
insert into request_caller (cause, caller) values (%(cause)s, %(caller)s) on conflict (cause) do nothing;

-- name: usage_rows
-- What was spent, by day, base, caller, kind and model, newest first.
select u.day, u.base_id, b.name as base_name, u.caller, k.name as caller_name, u.kind, u.model, sum(u.texts)::bigint as texts,
       sum(u.tokens)::bigint as tokens, sum(u.cost) as cost
  from usage_day u left join base b on b.id = u.base_id
  left join api_key k on u.caller = 'key:' || k.id and k.org_id = u.org_id
 where u.org_id = %(org)s and u.day >= %(since)s and u.day <= %(until)s
   and (%(base)s::uuid is null or u.base_id = %(base)s) and (%(caller)s::text is null or u.caller = %(caller)s)
 group by u.day, u.base_id, b.name, u.caller, k.name, u.kind, u.model
 order by u.day desc, b.name, u.caller, u.kind, u.model limit %(limit)s;

-- name: today
-- The current day, UTC.
select (clock_now() at time zone 'utc')::date;

-- name: put_limit
-- Creates a limit, or changes the amount of the one of the same scope, measure and period.
insert into usage_limit (org_id, base_id, kind, measure, period, amount)
values (%(org)s, %(base)s, %(kind)s, %(measure)s, %(period)s, %(amount)s)
on conflict (org_id, base_id, kind, measure, period) do update set amount = excluded.amount, updated_at = clock_now()
returning id, org_id, base_id, kind, measure, period, amount;

-- name: change_limit
-- Changes the amount of a limit.
update usage_limit set amount = %(amount)s, updated_at = clock_now() where id = %(id)s and org_id = %(org)s
returning id, org_id, base_id, kind, measure, period, amount;

-- name: delete_limit
-- Removes a limit.
delete from usage_limit where id = %(id)s and org_id = %(org)s
returning id, org_id, base_id, kind, measure, period, amount;

-- name: limits_of
-- The limits of an organisation, or of one of its bases and of the organisation, with what is used of them.
select l.id, l.org_id, l.base_id, b.name as base_name, l.kind, l.measure, l.period, l.amount,
       case l.kind when 'budget' then budget_spent(l) else quota_used(l) end as used,
       case l.kind when 'budget' then budget_reserved(l) else 0 end as reserved,
       case when l.period = 'month' then (usage_period_start('month') + interval '1 month') at time zone 'utc' end as ends_at,
       l.created_at, l.updated_at
  from usage_limit l left join base b on b.id = l.base_id
 where l.org_id = %(org)s and (%(base)s::uuid is null or l.base_id is null or l.base_id = %(base)s)
   and (%(id)s::uuid is null or l.id = %(id)s)
 order by l.base_id is not null, b.name, l.kind, l.measure, l.period;

-- name: lock_budgets
-- The budgets of these bases and of their organisations, locked against other reservations.
select l.id from usage_limit l
 where l.kind = 'budget' and (l.base_id = any (%(bases)s::uuid[]) or l.base_id is null and l.org_id = any (%(orgs)s::uuid[]))
 order by l.id for update;

-- name: budgets_left
-- What is spent and reserved of the budgets of these bases and of their organisations, from one snapshot.
select l.id, l.org_id, l.base_id, b.name as base_name, l.measure, l.period, l.amount, budget_spent(l) as spent,
       budget_reserved(l) as reserved,
       case when l.period = 'month' then (usage_period_start('month') + interval '1 month') at time zone 'utc' - clock_now() end as ends_in
  from usage_limit l left join base b on b.id = l.base_id
 where l.kind = 'budget' and (l.base_id = any (%(bases)s::uuid[]) or l.base_id is null and l.org_id = any (%(orgs)s::uuid[]))
 order by l.id;

-- name: insert_reservations
-- Reserves what is about to be spent.
insert into usage_reservation (id, org_id, base_id, job_id, lease, texts, tokens, cost)
select * from unnest(%(ids)s::uuid[], %(orgs)s::uuid[], %(bases)s::uuid[], %(jobs)s::uuid[], %(leases)s::uuid[], %(texts)s::int[],
                     %(tokens)s::bigint[], %(costs)s::numeric[]);

-- name: delete_reservations
-- Ends reservations: they are spent, or given back.
delete from usage_reservation where id = any (%(ids)s::uuid[]);

-- name: delete_dead_reservations
-- Removes the rows of workers that are gone; they count no more.
delete from usage_reservation r
 where (r.base_id = any (%(bases)s::uuid[]) or r.org_id = any (%(orgs)s::uuid[]))
   and not exists (select from job j where j.id = r.job_id and j.lease = r.lease and j.state = 'running');

-- name: quotas_of_base
-- The quotas of a base and of its organisation, with what is used of them.
select l.measure, l.amount, quota_used(l) as used, b.name as base_name from usage_limit l left join base b on b.id = l.base_id
 where l.kind = 'quota' and l.org_id = (select org_id from base where id = %(base)s) and (l.base_id is null or l.base_id = %(base)s)
 order by l.base_id is null, l.measure;

-- name: stored_documents
-- The documents of a base, or below these roots, with the contents of their live versions and how those were chunked.
with recursive below as (
    select i.id from item i where i.base_id = %(base)s and (case when %(roots)s::uuid[] is null then i.parent_id is null
                                                                  else i.id = any (%(roots)s) end)
    union all
    select c.id from item c join below b on c.parent_id = b.id)
select i.id as item_id, v.content_hash as content, c.characters, i.chunking, v.recipe,
       (select count(*) from asset a where a.item_id = i.id and a.version = v.version) as images,
       (select count(*) from asset a where a.item_id = i.id and a.version = v.version and a.state <> 'described') as waiting_images
  from below b join item i on i.id = b.id and i.status <> 'deleting'
  join item_version v on v.item_id = i.id and v.version = i.live_version
  join content c on c.hash = v.content_hash and c.characters is not null
 order by i.id;
