-- name: schema_number
-- The last migration that was applied.
select max(number) from schema_migration;

-- name: find_unanalysed_items
-- Items whose live version has images that wait to be described, without a job.
select distinct i.id, i.base_id, a.version from asset a
  join item i on i.id = a.item_id and i.live_version = a.version
  join base b on b.id = i.base_id
 where a.state in ('waiting', 'asking') and i.status <> 'deleting' and b.status <> 'deleting'
   and not exists (select from job j where j.subject = i.id and j.kind = 'analyse_assets' and j.state <> 'dead'
                      and (j.payload ->> 'version')::int = a.version)
   and (%(base)s::uuid is null or i.base_id = %(base)s)
 order by i.id limit %(limit)s;

-- name: find_items_with_two_jobs
-- Items with more than one living job for their wanted version.
select j.subject from job j
 where j.kind in ('index_document', 'prepare_root', 'check_file_processing_result') and j.state <> 'dead' and not j.cancelling
   and exists (select from item i where i.id = j.subject and i.wanted_version = (j.payload ->> 'version')::int)
 group by j.subject having count(*) > 1 limit %(limit)s;

-- name: find_unremoved_roots
-- Roots of subtrees that are being deleted, without a living job that removes them.
select i.id, i.base_id from item i join base b on b.id = i.base_id
  left join item p on p.id = i.parent_id
 where i.status = 'deleting' and b.status <> 'deleting' and (p.id is null or p.status <> 'deleting')
   and i.id not in (select r.id::uuid from job j, jsonb_array_elements_text(j.payload -> 'root_ids') r(id)
                     where j.kind = 'delete_subtree' and j.state <> 'dead')
   and (%(base)s::uuid is null or i.base_id = %(base)s)
 order by i.id limit %(limit)s;

-- name: filter_by_organisation
-- Those of these items, bases, sets of chunks, swaps and runs that belong to an organisation; deleted items, by their chunks.
select s.id from unnest(%(ids)s::uuid[]) s(id)
 where exists (select from item i join base b on b.id = i.base_id where i.id = s.id and b.org_id = %(org)s)
    or exists (select from base b where b.id = s.id and b.org_id = %(org)s)
    or exists (select from chunk c join chunk_set t on t.id = c.set_id join base b on b.id = t.base_id
                where c.item_id = s.id and b.org_id = %(org)s)
    or exists (select from chunk_set t join base b on b.id = t.base_id where t.id = s.id and b.org_id = %(org)s)
    or exists (select from swap w join base b on b.id = w.base_id where w.id = s.id and b.org_id = %(org)s)
    or exists (select from connector_run r join connector c on c.id = r.connector_id where r.id = s.id and c.org_id = %(org)s)
 limit 100;

-- name: find_unremoved_bases
-- Bases that are being deleted without a living job that removes them.
select b.id from base b
 where b.status = 'deleting'
   and not exists (select from job j where j.kind = 'delete_base' and j.state <> 'dead' and j.subject = b.id)
 limit %(limit)s;

-- name: find_underived_containers
-- Listed containers whose status does not follow from their children.
select i.id, i.base_id from item i join base b on b.id = i.base_id
 where i.is_container and i.status <> 'deleting' and b.status <> 'deleting'
   and i.expanded_version >= i.wanted_version
   and i.status <> case
       when exists (select from item c where c.parent_id = i.id and c.is_active) then 'processing'
       when i.error_code <> 'all_failed' then 'failed'
       when exists (select from item c where c.parent_id = i.id and c.status = 'completed') then 'completed'
       when exists (select from item c where c.parent_id = i.id and c.status = 'failed') then 'failed'
       else 'completed' end
   and (%(base)s::uuid is null or i.base_id = %(base)s)
 order by i.id limit %(limit)s;

-- name: find_unannounced_bases
-- Bases without active items and waiting images that were not announced as ready.
select b.id from base b
 where not b.ingested and b.status <> 'deleting'
   and exists (select from item i where i.base_id = b.id and i.status in ('completed', 'failed'))
   and not exists (select from item i where i.base_id = b.id and i.is_active)
   and not base_has_waiting_images(b.id)
 limit %(limit)s;

-- name: find_unused_contents
-- Contents older than an hour that no version uses.
select c.hash from content c
 where c.created_at < clock_now() - interval '1 hour'
   and not exists (select from item_version v where v.content_hash = c.hash)
 limit %(limit)s;

-- name: is_thorough_pass_due
-- Whether the reconciler has made no thorough pass for an hour.
select not exists (
    select from job_history where kind = %(kind)s and outcome = 'done' and finished_at > clock_now() - interval '1 hour'
       and result ->> 'thorough' = 'true');

-- name: find_incomplete_items
-- Items whose chunks are not exactly those of their live version.
select i.id from item i join base b on b.id = i.base_id
 where i.status <> 'deleting' and b.status <> 'deleting' and i.live_version is not null
   and not exists (select from swap w where w.base_id = b.id and w.state = 'switched' and not w.is_refreshed)
   and i.chunk_count <> (select count(*) from chunk c
                          where c.set_id = b.chunk_set and c.item_id = i.id and c.version = i.live_version)
 order by i.id limit %(limit)s;

-- name: find_leftover_items
-- Deleted items that still have chunks.
select distinct c.item_id from chunk c where not exists (select from item i where i.id = c.item_id) limit %(limit)s;

-- name: find_unused
-- Contents and blobs that nothing uses, and names that should be deleted from the store, older than an hour.
select encode(c.hash, 'hex') from content c
 where c.created_at < clock_now() - interval '1 hour'
   and not exists (select from item_version v where v.content_hash = c.hash)
 union all
select encode(b.hash, 'hex') from blob b
 where b.touched_at < clock_now() - interval '1 hour' and blob_is_unused(b.hash)
 union all
select s.name from pending_blob_name s where s.deleting and s.due_at < clock_now() - interval '1 hour'
 limit %(limit)s;

-- name: find_orphan_runs
-- Open runs of connectors without a living job.
select r.id, r.connector_id from connector_run r
 where r.completed_at is null and not exists (select from job j where j.id = r.job_id and j.state <> 'dead')
 order by r.id limit %(limit)s;

-- name: find_leftover_bases
-- Bases with chunks of versions that were never published, or of deleted items.
-- In sets that don't answer, other versions than the live one are no damage.
select distinct s.base_id from chunk c join chunk_set s on s.id = c.set_id left join item i on i.id = c.item_id
 where i.id is null
    or (s.state = 'live' and i.status in ('completed', 'failed') and c.version is distinct from i.live_version)
 limit %(limit)s;

-- name: find_outdated_sets
-- Sets that lack an item which the live set has, though they say that they are complete.
select distinct s.id from chunk_set s join base b on b.id = s.base_id and b.status <> 'deleting' and s.state in ('building', 'kept')
  join item i on i.base_id = b.id and i.live_version is not null and i.status <> 'deleting'
 where exists (select from chunk c where c.set_id = b.chunk_set and c.item_id = i.id and c.version = i.live_version)
   and not exists (select from chunk c where c.set_id = s.id and c.item_id = i.id and c.version = i.live_version)
   and not exists (select from missing_item m where m.set_id = s.id and m.item_id = i.id)
 limit %(limit)s;

-- name: find_leftover_sets
-- Sets of chunks that belong to no base.
select distinct c.set_id from chunk c where not exists (select from chunk_set s where s.id = c.set_id) limit %(limit)s;

-- name: storage_totals
-- The room that the whole installation takes, in bytes.
select pg_database_size(current_database()) as database_bytes, pg_total_relation_size('chunk') as chunk_bytes,
       pg_total_relation_size('segment') as index_bytes, pg_total_relation_size('content_part') as content_bytes,
       (select count(*)::int from blob) as uploads, (select coalesce(sum(size), 0)::bigint from blob) as upload_bytes;

-- name: storage_of_bases
-- The bases of an organisation with their documents and the room they take; their share of the chunks by number, the largest first.
with counted as (
    select b.id, b.name, b.status, b.embedder, b.dimensions, b.index_kind,
           (count(i.id) filter (where not i.is_container))::int as items,
           coalesce(sum(i.chunk_count), 0)::bigint as chunks,
           coalesce(sum(case when i.blob_hash is not null then i.size_bytes end), 0)::bigint as upload_bytes
      from base b left join item i on i.base_id = b.id and i.status <> 'deleting'
     where b.org_id = %(org)s and b.status <> 'deleting' group by b.id)
select c.id, c.name, c.status, c.embedder, c.dimensions, c.index_kind, c.items, c.chunks::int as chunks,
       (c.chunks * (select pg_total_relation_size('chunk') / greatest(reltuples, 1) from pg_class where oid = 'chunk'::regclass))::bigint
           as chunk_bytes,
       (select coalesce(sum(pg_column_size(g.nos) + pg_column_size(g.items) + pg_column_size(g.lengths) + pg_column_size(g.signs)
                            + pg_column_size(g.terms) + pg_column_size(g.ordinals) + pg_column_size(g.counts)), 0)
          from segment g join chunk_set s on s.id = g.set_id where s.base_id = c.id)::bigint as index_bytes,
       c.upload_bytes
  from counted c order by c.chunks desc, c.id limit %(limit)s;

-- name: find_recently_ingested_bases
-- Bases that became ready within a time.
select distinct e.base_id from event e
 where e.at > clock_now() - %(within)s::interval and e.type = 'KnowledgeSpaceAllDocumentsIngested' and e.base_id is not null
 limit %(limit)s;

-- name: support_tables
-- The tables with their estimated rows and their sizes.
select jsonb_build_object('table', c.relname, 'rows', c.reltuples::bigint, 'bytes', pg_total_relation_size(c.oid)) as section
  from pg_class c where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace order by pg_total_relation_size(c.oid) desc;

-- name: support_bases
-- The bases, without their names.
select jsonb_build_object('base', b.id, 'status', b.status, 'error', b.error_code, 'dimensions', b.dimensions, 'index', b.index_kind,
                          'filling', b.index_fill, 'createdAt', b.created_at) as section
  from base b order by b.id limit 1000;

-- name: support_items
-- How many items each base has, by type, status and error.
select jsonb_build_object('base', i.base_id, 'type', i.type, 'status', i.status, 'error', i.error_code, 'items', count(*)) as section
  from item i group by i.base_id, i.type, i.status, i.error_code order by count(*) desc limit 1000;

-- name: support_warnings
-- How many items have each warning.
select jsonb_build_object('warning', w.warning, 'items', count(*)) as section
  from item i cross join lateral unnest(i.warnings) w(warning) group by w.warning order by count(*) desc limit 100;

-- name: support_jobs
-- How many jobs of each kind wait, run and are dead.
select jsonb_build_object('kind', j.kind, 'state', j.state, 'jobs', count(*), 'oldest', min(j.created_at), 'attempts', max(j.attempt))
       as section
  from job j group by j.kind, j.state order by count(*) desc limit 200;

-- name: support_job_errors
-- How often living jobs failed, by kind and code.
select jsonb_build_object('kind', j.kind, 'state', j.state, 'code', e.entry ->> 'code', 'failures', count(*), 'last', max(e.entry ->> 'at'))
       as section
  from job j cross join lateral jsonb_array_elements(j.errors) e(entry)
 group by j.kind, j.state, e.entry ->> 'code' order by count(*) desc limit 200;

-- name: support_workers
-- The workers, and how long ago their leases were renewed.
select jsonb_build_object('worker', w.id, 'leaseUntil', w.lease_until) as section from worker w limit 200;

-- name: support_webhooks
-- How many webhooks are active and paused, by error.
select jsonb_build_object('status', w.status, 'error', w.error_code, 'webhooks', count(*)) as section
  from webhook w group by w.status, w.error_code limit 100;

-- name: support_runs
-- How the last runs of connectors ended.
select jsonb_build_object('state', r.status, 'runs', count(*), 'last', max(r.started_at)) as section
  from connector_run r group by r.status order by count(*) desc limit 100;

-- name: support_migrations
-- The migrations that this database has had.
select jsonb_build_object('number', m.number, 'name', m.name, 'at', m.applied_at) as section from schema_migration m order by m.number;
