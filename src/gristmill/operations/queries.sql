-- name: schema_number
-- The last migration that was applied.
select max(number) from schema_migration;

-- name: stuck
-- Active items that no living job will move on. A container that is listed is moved on by its active children.
select i.id, i.base_id from item i join base b on b.id = i.base_id
 where i.status in ('idle', 'preparing', 'processing', 'reading', 'embedding') and b.status <> 'deleting'
   and not exists (select from job j where j.subject = i.id and j.state <> 'dead'
                      and (j.payload ->> 'version')::int = i.wanted_version)
   and not (i.is_container and i.expanded_version >= i.wanted_version and exists (
       select from item c where c.parent_id = i.id
          and c.status in ('idle', 'preparing', 'processing', 'reading', 'embedding')))
   and (%(base)s::uuid is null or i.base_id = %(base)s)
 order by i.id limit %(limit)s;

-- name: unanalysed
-- Items some of whose images wait, in the version that answers, for a job that is not there.
select distinct i.id, i.base_id, a.version from asset a
  join item i on i.id = a.item_id and i.live_version = a.version
  join base b on b.id = i.base_id
 where a.state in ('waiting', 'asking') and i.status <> 'deleting' and b.status <> 'deleting'
   and not exists (select from job j where j.subject = i.id and j.kind = 'analyse_assets' and j.state <> 'dead'
                      and (j.payload ->> 'version')::int = a.version)
   and (%(base)s::uuid is null or i.base_id = %(base)s)
 order by i.id limit %(limit)s;

-- name: doubled
-- Items with more than one living job that would move them on.
select j.subject from job j
 where j.kind in ('index_document', 'prepare_root', 'check_file_processing_result') and j.state <> 'dead' and not j.cancelling
   and exists (select from item i where i.id = j.subject and i.wanted_version = (j.payload ->> 'version')::int)
 group by j.subject having count(*) > 1 limit %(limit)s;

-- name: unremoved
-- Roots of what is being deleted without a living job that removes them.
select i.id, i.base_id from item i join base b on b.id = i.base_id
  left join item p on p.id = i.parent_id
 where i.status = 'deleting' and b.status <> 'deleting' and (p.id is null or p.status <> 'deleting')
   and i.id not in (select r.id::uuid from job j, jsonb_array_elements_text(j.payload -> 'root_ids') r(id)
                     where j.kind = 'delete_subtree' and j.state <> 'dead')
   and (%(base)s::uuid is null or i.base_id = %(base)s)
 order by i.id limit %(limit)s;

-- name: of_organisation
-- Those of these items, bases and runs that are an organisation's; items that are gone, by their chunks.
select s.id from unnest(%(ids)s::uuid[]) s(id)
 where exists (select from item i join base b on b.id = i.base_id where i.id = s.id and b.org_id = %(org)s)
    or exists (select from base b where b.id = s.id and b.org_id = %(org)s)
    or exists (select from chunk c join base b on b.id = c.base_id where c.item_id = s.id and b.org_id = %(org)s)
    or exists (select from connector_run r join connector c on c.id = r.connector_id where r.id = s.id and c.org_id = %(org)s)
 limit 100;

-- name: unremoved_bases
-- Bases that are being deleted without a living job that removes them.
select b.id from base b
 where b.status = 'deleting'
   and not exists (select from job j where j.kind = 'delete_base' and j.state <> 'dead' and j.subject = b.id)
 limit %(limit)s;

-- name: unsettled
-- Containers that are listed, and not as their children are.
select i.id, i.base_id from item i join base b on b.id = i.base_id
 where i.is_container and i.status <> 'deleting' and b.status <> 'deleting'
   and i.expanded_version >= i.wanted_version
   and i.status <> case
       when exists (select from item c where c.parent_id = i.id
                     and c.status in ('idle', 'preparing', 'processing', 'reading', 'embedding')) then 'processing'
       when i.error_code <> 'all_failed' then 'failed'
       when exists (select from item c where c.parent_id = i.id and c.status = 'completed') then 'completed'
       when exists (select from item c where c.parent_id = i.id and c.status = 'failed') then 'failed'
       else 'completed' end
   and (%(base)s::uuid is null or i.base_id = %(base)s)
 order by i.id limit %(limit)s;

-- name: unannounced
-- Bases at rest that were not announced as ready.
select b.id from base b
 where not b.ingested and b.status <> 'deleting'
   and exists (select from item i where i.base_id = b.id and i.status in ('completed', 'failed'))
   and not exists (select from item i where i.base_id = b.id
                      and i.status in ('idle', 'preparing', 'processing', 'reading', 'embedding'))
 limit %(limit)s;

-- name: leftover_bases
-- Bases with chunks of versions that never came, or of items that are gone.
select distinct c.base_id from chunk c left join item i on i.id = c.item_id
 where i.id is null or (i.status in ('completed', 'failed') and c.version is distinct from i.live_version)
 limit %(limit)s;

-- name: drop_leftovers
-- Removes the chunks of versions that never came, of items at rest, and of items that are gone; a row per item.
with left_over as (
    select distinct c.item_id from chunk c left join item i on i.id = c.item_id
     where c.base_id = %(base)s
       and (i.id is null or (i.status in ('completed', 'failed') and c.version is distinct from i.live_version))
     limit %(limit)s),
gone as (
    delete from chunk c using left_over l left join item i on i.id = l.item_id
     where c.base_id = %(base)s and c.item_id = l.item_id and (i.id is null or c.version is distinct from i.live_version)
    returning c.base_id, c.no),
told as (
    insert into deleted_chunk (base_id, no) select base_id, no from gone)
select item_id from left_over;

-- name: drop_unpublished
-- Removes what was written of an item's version that will not come.
with gone as (
    delete from chunk c using item i
     where c.base_id = %(base)s and c.item_id = %(item)s and i.id = c.item_id and c.version is distinct from i.live_version
    returning c.base_id, c.no)
insert into deleted_chunk (base_id, no) select base_id, no from gone;

-- name: unheld_contents
-- Contents that no version uses, older than a while.
select c.hash from content c
 where c.created_at < clock_now() - interval '1 hour'
   and not exists (select from item_version v where v.content_hash = c.hash)
 limit %(limit)s;

-- name: none_thorough
-- Whether no thorough pass of the reconciler was done for an hour.
select not exists (
    select from job_history where kind = %(kind)s and outcome = 'done' and finished_at > clock_now() - interval '1 hour'
       and result ->> 'thorough' = 'true');

-- name: half_there
-- Items whose chunks are not exactly those of their live version.
select i.id from item i
 where i.status <> 'deleting' and i.live_version is not null
   and i.chunk_count <> (select count(*) from chunk c
                          where c.base_id = i.base_id and c.item_id = i.id and c.version = i.live_version)
 order by i.id limit %(limit)s;

-- name: left_behind
-- Chunks whose item is gone.
select distinct c.item_id from chunk c where not exists (select from item i where i.id = c.item_id) limit %(limit)s;

-- name: unheld
-- Contents that no version uses, blobs that nothing uses, and bytes that should be out of the store, older than a while.
select encode(c.hash, 'hex') from content c
 where c.created_at < clock_now() - interval '1 hour'
   and not exists (select from item_version v where v.content_hash = c.hash)
 union all
select encode(b.hash, 'hex') from blob b
 where b.touched_at < clock_now() - interval '1 hour' and blob_is_unused(b.hash)
 union all
select s.name from pending_blob_name s where s.deleting and s.due_at < clock_now() - interval '1 hour'
 limit %(limit)s;

-- name: running_for_deleted
-- What running jobs of a lane are about that is being deleted.
select j.subject from job j join item i on i.id = j.subject
 where j.lane = %(lane)s and j.state = 'running' and i.status = 'deleting';

-- name: waiting_for_deleted
-- What waiting jobs of a lane are about that is being deleted.
select j.subject from job j join item i on i.id = j.subject
 where j.lane = %(lane)s and j.state in ('queued', 'delayed') and i.status = 'deleting' limit %(limit)s;

-- name: forget_dead
-- Dead jobs about things that are gone are forgotten.
delete from job where subject = any (%(subjects)s::uuid[]) and state = 'dead';

-- name: parked
-- Items whose indexing was interrupted in a base that does not resume by itself.
select id from item where base_id = %(base)s and status = 'failed' and error_code = 'interrupted' order by id limit %(limit)s;

-- name: dismiss
-- Parked and stuck items are left as they are: failed, and no longer asked about.
update item set status = 'failed', error_code = 'dismissed', error_message = 'Indexing was interrupted, and dismissed.',
       wanted_version = wanted_version + 1, expanded_version = wanted_version + 1, updated_at = clock_now()
 where id = any (%(ids)s::uuid[]) and status <> 'deleting'
returning id;

-- name: fail_stuck
-- Stuck items are at rest again, so that they can be wanted anew.
update item set status = 'failed', error_code = 'interrupted', error_message = 'Indexing was interrupted.',
       updated_at = clock_now()
 where id = any (%(ids)s::uuid[]) and status not in ('completed', 'failed', 'deleting')
returning id;

-- name: orphan_runs
-- Open runs that no living job makes.
select r.id, r.connector_id from connector_run r
 where r.completed_at is null and not exists (select from job j where j.id = r.job_id and j.state <> 'dead')
 order by r.id limit %(limit)s;
