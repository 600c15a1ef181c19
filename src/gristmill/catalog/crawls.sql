-- name: find_crawl
-- The last crawl of a site.
select site_id, number, version, is_running, is_seeded, is_complete, sites, requests, pages, addresses, left_out
  from site_crawl where site_id = %(site)s;

-- name: start_crawl
-- Starts the next crawl of a site.
insert into site_crawl (site_id, version, sites) values (%(site)s, %(version)s, %(sites)s::text[])
on conflict (site_id) do update
   set number = site_crawl.number + 1, version = excluded.version, sites = excluded.sites, is_running = true, is_seeded = false, is_complete = true,
       requests = 0, pages = 0, addresses = 0, left_out = '{}', started_at = clock_now(), finished_at = null
returning site_id, number, version, is_running, is_seeded, is_complete, sites, requests, pages, addresses, left_out;

-- name: advance_crawl
-- Adds to the counts of a crawl, and to the hosts of its site.
update site_crawl
   set requests = requests + %(requests)s, pages = pages + %(pages)s, addresses = addresses + %(addresses)s,
       is_seeded = is_seeded or %(is_seeded)s, is_complete = is_complete and not %(is_incomplete)s,
       sites = sites || array(select unnest(%(sites)s::text[]) except select unnest(sites))
 where site_id = %(site)s;

-- name: finish_crawl
-- Ends a crawl; what it did not meet is forgotten if it could see everything.
with forgotten as (
    delete from crawl_page where site_id = %(site)s and %(is_complete)s and number < %(number)s)
update site_crawl set is_running = false, left_out = %(left_out)s::jsonb, finished_at = clock_now() where site_id = %(site)s;

-- name: meet_addresses
-- Notes addresses that a crawl met; how many it had not met before. Those with a reason are not fetched.
with met as (
    select u.url, min(u.depth) as depth, min(u.reason) as reason
      from unnest(%(urls)s::text[], %(depths)s::int[], %(reasons)s::text[]) u(url, depth, reason) group by u.url)
insert into crawl_page (site_id, url, number, fetched, depth, state, reason)
select %(site)s, m.url, %(number)s, case when m.reason is null then 0 else %(number)s end, m.depth,
       case when m.reason is null then 'new' else 'left_out' end, m.reason
  from met m order by m.url
on conflict (site_id, url) do update
   set number = excluded.number, depth = excluded.depth, attempts = 0, keeps_address = false,
       fetched = case when excluded.reason is not null then excluded.number
                      when crawl_page.number < excluded.number then crawl_page.fetched else 0 end,
       state = case when excluded.reason is not null then excluded.state
                    when crawl_page.reason = 'too_deep' then 'new' else crawl_page.state end,
       reason = coalesce(excluded.reason, nullif(crawl_page.reason, 'too_deep'))
 where crawl_page.number < excluded.number or crawl_page.reason = 'too_deep' and excluded.reason is null
returning url;

-- name: count_variants
-- How many addresses of each path differ in their query, of those that a crawl met before there were too many.
select path, count(*)::int as count from crawl_page
 where site_id = %(site)s and path = any (%(paths)s::text[]) and strpos(url, '?') > 0
   and number = %(number)s and reason is distinct from 'trap' group by path;

-- name: find_waiting_pages
-- Addresses that a crawl has not fetched yet, those nearest to the start page first, with what the base has of them.
select c.url, c.depth, c.state, c.reason, c.target, c.keeps_address, c.attempts, c.links, c.validators, c.digest,
       i.id as item_id, v.original
  from crawl_page c
  left join item i on i.parent_id = c.site_id and i.base_id = %(base)s and i.type = 'url' and md5(i.source_key) = md5(c.url)
                  and i.source_key = c.url and i.status <> 'deleting'
  left join item_version v on v.item_id = i.id and v.version = i.live_version
 where c.site_id = %(site)s and c.number = %(number)s and c.fetched < c.number
 order by c.attempts, c.depth, c.url limit %(limit)s;

-- name: record_pages
-- Records what a crawl found at addresses, all in one statement.
update crawl_page c
   set fetched = case when u.is_done then %(number)s else c.fetched end, attempts = c.attempts + case when u.is_done then 0 else 1 end,
       state = u.state, reason = u.reason, target = u.target, links = array(select jsonb_array_elements_text(u.links)),
       validators = u.validators, digest = decode(u.digest, 'hex')
  from jsonb_to_recordset(%(pages)s::jsonb)
       u(url text, is_done boolean, state text, reason text, target text, links jsonb, validators jsonb, digest text)
 where c.site_id = %(site)s and c.url = u.url;

-- name: requeue_aliases
-- Aliases whose target is no page of this crawl are fetched once more, and filed under their own address.
update crawl_page c set keeps_address = true, fetched = 0, validators = '{}'
 where c.site_id = %(site)s and c.fetched = %(number)s and c.state = 'alias' and not c.keeps_address and c.reason = 'canonical'
   and not exists (select from crawl_page t where t.site_id = c.site_id and t.url = c.target and t.fetched = %(number)s
                      and t.state = 'page')
returning c.url;

-- name: count_left_out
-- What a crawl left out, by reason.
select coalesce(case when c.fetched < c.number then 'over_limit' else c.reason end, 'unreachable') as reason, count(*)::int as count
  from crawl_page c
 where c.site_id = %(site)s and c.number = %(number)s and (c.fetched < c.number or c.state = 'left_out') group by 1;

-- name: find_gone_pages
-- Pages of a site that are gone: not found there, no page any more, or, after a crawl that could see everything, not met.
select i.id from item i left join crawl_page c on c.site_id = i.parent_id and c.url = i.source_key
 where i.parent_id = %(site)s and i.type = 'url' and i.listed_version > 0 and i.status <> 'deleting'
   and case when c.fetched = %(number)s then c.state in ('alias', 'left_out', 'gone')
            else %(is_complete)s and coalesce(c.number, 0) < %(number)s end;

-- name: count_filed_pages
-- How many pages of a site its crawls have filed.
select count(*)::int from item i
 where i.parent_id = %(site)s and i.type = 'url' and i.listed_version > 0 and i.status <> 'deleting';

-- name: hand_over_pages
-- Gives items the bytes that a crawl fetched, for the version that is wanted now.
update item i
   set blob_hash = u.blob, size_bytes = u.size,
       source = i.source || jsonb_build_object('fetched', u.fetched || jsonb_build_object('version', i.wanted_version))
  from unnest(%(ids)s::uuid[], %(blobs)s::bytea[], %(sizes)s::bigint[], %(fetched)s::jsonb[]) u(id, blob, size, fetched)
 where i.id = u.id and i.status <> 'deleting';

-- name: set_host_delay
-- Sets how long to wait between two requests to a host.
insert into web_host (host, delay) values (%(host)s, %(delay)s)
on conflict (host) do update set delay = excluded.delay where web_host.delay <> excluded.delay;

-- name: take_turn
-- Reserves the next request to a host, unless it is further away than the caller waits.
-- The seconds until then, below zero if nothing was reserved. No row for hosts without a delay.
with turn as (
    update web_host set next_at = greatest(next_at, clock_now()) + delay
     where host = %(host)s and delay > interval '0' and next_at <= clock_now() + %(patience)s
    returning extract(epoch from next_at - delay - clock_now())::double precision as wait)
select coalesce((select greatest(t.wait, 0) from turn t),
                least(-extract(epoch from h.next_at - clock_now())::double precision, -0.001))
  from web_host h where h.host = %(host)s and h.delay > interval '0';
