-- name: set_base_refresh
-- Changes when the sources of a base are checked, for all that have no rule of their own.
update base set refresh = %(rule)s::jsonb, updated_at = case when created_at = updated_at then updated_at else clock_now() end
 where id = %(id)s and status <> 'deleting' returning id;

-- name: schedule_checks
-- Schedules the first checks of items; those that have a schedule keep it.
insert into item_refresh (item_id, base_id, rule, origin, next_at)
select i.id, i.base_id, %(rule)s::jsonb, %(origin)s, clock_now() + %(delay)s::interval + %(spread)s::interval * random()
  from item i where i.id = any (%(ids)s::uuid[])
on conflict (item_id) do nothing;

-- name: reschedule_base
-- Applies a new rule of a base to every item that inherits it.
insert into item_refresh (item_id, base_id, rule, origin, next_at)
select i.id, i.base_id, %(rule)s::jsonb, 'base', clock_now() + %(delay)s::interval + %(spread)s::interval * random()
  from item i
 where i.base_id = %(base)s and i.status <> 'deleting'
   and (i.type in ('url', 'sitemap', 'site') and not exists (select from item p where p.id = i.parent_id and p.type = 'site')
        or i.type in ('directory', 'file') and i.listed_version = 0 and i.source ? 'path' and i.blob_hash is null)
on conflict (item_id) do update set rule = excluded.rule, next_at = excluded.next_at, unchanged = 0
 where item_refresh.origin = 'base';

-- name: unschedule_base
-- Ends the checks of every item that inherits the rule of its base.
delete from item_refresh where base_id = %(base)s and origin = 'base';

-- name: items_with_freshness
-- Items as they are shown, with their schedules and watches.
select i.* from item_row i where i.id = any (%(ids)s::uuid[]);

-- name: set_item_refresh
-- Gives items a rule, in place of the one that they have.
insert into item_refresh (item_id, base_id, rule, origin, next_at)
select i.id, i.base_id, %(rule)s::jsonb, %(origin)s, clock_now() + %(delay)s::interval + %(spread)s::interval * random()
  from item i where i.id = any (%(ids)s::uuid[])
on conflict (item_id) do update set rule = excluded.rule, origin = excluded.origin, next_at = excluded.next_at, unchanged = 0;

-- name: drop_item_refresh
-- Ends the checks of items.
delete from item_refresh where item_id = any (%(ids)s::uuid[]);

-- name: inheriting_pages
-- The pages of a container that have no rule of their own.
select i.id from item i left join item_refresh r on r.item_id = i.id
 where i.parent_id = %(parent)s and i.type = 'url' and i.status <> 'deleting' and coalesce(r.origin, 'base') <> 'item';

-- name: run_checks_now
-- Makes the next checks of items due; how many have a schedule.
update item_refresh set next_at = clock_now() where item_id = any (%(ids)s::uuid[]) returning item_id;

-- name: find_refreshes
-- The schedules of items.
select item_id, rule, origin, next_at, unchanged, checked_at, error_code, error_message
  from item_refresh where item_id = any (%(ids)s::uuid[]);

-- name: find_due_bases
-- Bases with an item whose source is to be checked now.
select b.id from base b
 where b.status = 'ready' and (b.expires_at is null or b.expires_at > clock_now())
   and exists (select from item_refresh r where r.base_id = b.id and r.next_at <= clock_now());

-- name: find_due_items
-- Items of a base whose sources are to be checked now: the documents or the containers, the longest due first.
select r.item_id as id, i.type, i.status, i.source, i.error_code, i.fingerprint, i.parent_id, r.rule, r.unchanged,
       v.validators, v.original,
       coalesce(i.source ->> 'render', (select p.source ->> 'render' from item p where p.id = i.parent_id)) as render
  from item_refresh r join item i on i.id = r.item_id
  left join item_version v on v.item_id = i.id and v.version = i.live_version
 where r.base_id = %(base)s and r.next_at <= clock_now() and i.is_container = %(containers)s and i.status <> 'deleting'
   and (%(ids)s::uuid[] is null or r.item_id = any (%(ids)s::uuid[]))
 order by r.next_at limit %(limit)s;

-- name: record_checks
-- Records checks and when the next ones are due, unless another schedule was set in the meantime.
update item_refresh r
   set next_at = clock_now() + make_interval(secs => u.next_in), unchanged = u.unchanged, checked_at = clock_now(),
       error_code = u.error_code, error_message = u.error_message
  from unnest(%(ids)s::uuid[], %(delays)s::double precision[], %(unchanged)s::smallint[], %(codes)s::text[], %(messages)s::text[])
       u(id, next_in, unchanged, error_code, error_message)
 where r.item_id = u.id and r.next_at <= clock_now();

-- name: set_fingerprints
-- Records the fingerprints of files as their new versions will read them.
update item i set fingerprint = u.fingerprint from unnest(%(ids)s::uuid[], %(fingerprints)s::text[]) u(id, fingerprint)
 where i.id = u.id and i.status <> 'deleting';

-- name: move_freshness
-- Schedules and exclusions go with items to another base.
with moved as (update item_refresh set base_id = %(base)s where item_id = any (%(ids)s::uuid[]) and base_id <> %(base)s)
update exclusion set base_id = %(base)s where root_id = any (%(ids)s::uuid[]) and base_id <> %(base)s;

-- name: database_time
-- The time by the database's clock.
select clock_now();
