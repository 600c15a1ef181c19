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

-- name: insert_connector
-- A connector, unless its name is taken.
insert into connector (id, org_id, name, type, config, credentials, schedule, acl_schedule, enabled, acl)
values (%(id)s, %(org)s, %(name)s, %(type)s, %(config)s, %(credentials)s, %(schedule)s, %(acl_schedule)s, %(enabled)s,
        %(acl)s::text[])
on conflict do nothing
returning *, array[]::uuid[] as base_ids;

-- name: connector
-- One connector, with the bases that it feeds.
select c.*, array(select b.base_id from connector_base b join base on base.id = b.base_id and base.status <> 'deleting'
                   where b.connector_id = c.id order by b.base_id) as base_ids,
       (select s.next_at from schedule s where s.name = 'connector:' || c.id) as next_sync_at
  from connector c where c.id = %(id)s;

-- name: lock_connector
-- Nobody else changes this connector until the transaction ends.
select id from connector where id = %(id)s for no key update;

-- name: connectors
-- Connectors of an organisation in the order of their making, after a cursor; of one name, of one base.
select c.*, array(select b.base_id from connector_base b join base on base.id = b.base_id and base.status <> 'deleting'
                   where b.connector_id = c.id order by b.base_id) as base_ids,
       (select s.next_at from schedule s where s.name = 'connector:' || c.id) as next_sync_at
  from connector c
 where c.org_id = %(org)s
   and (%(after)s::uuid is null or c.id > %(after)s) and (%(name)s::text is null or lower(c.name) = lower(%(name)s))
   and (%(base)s::uuid is null or exists (select from connector_base b where b.connector_id = c.id and b.base_id = %(base)s))
 order by c.id limit %(limit)s;

-- name: change_connector
-- Changes what is given; no row when the name is taken.
update connector c
   set name = coalesce(%(name)s, c.name), config = coalesce(%(config)s::jsonb, c.config),
       credentials = coalesce(%(credentials)s::bytea, c.credentials), schedule = coalesce(%(schedule)s, c.schedule),
       acl_schedule = coalesce(%(acl_schedule)s, c.acl_schedule), enabled = coalesce(%(enabled)s, c.enabled),
       acl = case when %(acl_given)s then %(acl)s::text[] else c.acl end, updated_at = clock_now()
 where c.id = %(id)s and not exists (
     select from connector o where o.org_id = c.org_id and lower(o.name) = lower(%(name)s) and o.id <> c.id)
returning id;

-- name: attach_bases
-- A connector feeds these bases too.
insert into connector_base (connector_id, base_id) select %(id)s, unnest(%(bases)s::uuid[]) on conflict do nothing
returning base_id;

-- name: detach_bases
-- A connector no longer feeds these bases; the containers there.
delete from connector_base where connector_id = %(id)s and base_id = any (%(bases)s::uuid[]) returning base_id, item_id as id;

-- name: connector_containers
-- The containers of a connector.
select base_id, item_id as id from connector_base where connector_id = %(id)s order by base_id;

-- name: delete_connector
-- A connector is gone, with all that is known of its documents and runs.
delete from connector where id = %(id)s returning id;

-- name: forget_marks
-- The next run reads every stream from its beginning.
update connector_stream set checkpoint = null, checkpoint_version = null where connector_id = %(id)s;

-- name: begin_run
-- () -> running; the connector shows it at once.
with shown as (
    update connector set last_sync_status = 'running', last_sync_error_code = null, last_sync_error = null,
           updated_at = clock_now() where id = %(connector)s)
insert into connector_run (connector_id, job_id, trigger, force, dry_run, allow_deletions)
values (%(connector)s, %(job)s, %(trigger)s, %(force)s, %(dry_run)s, %(allow_deletions)s)
returning *;

-- name: open_run
-- The run of a connector that has not ended.
select * from connector_run where connector_id = %(connector)s and completed_at is null;

-- name: run
-- One run; its batches are done whose documents are.
select r.*, case when r.completed_at is not null then 0 else (
            select count(*) from item i where i.cause = r.id and i.status in ('processing', 'reading', 'embedding'))
       end::int as pending
  from connector_run r where r.id = %(id)s;

-- name: runs
-- Runs of a connector, newest first, before a cursor.
select r.*, case when r.completed_at is not null then 0 else (
            select count(*) from item i where i.cause = r.id and i.status in ('processing', 'reading', 'embedding'))
       end::int as pending
  from connector_run r
 where r.connector_id = %(connector)s and (%(before)s::uuid is null or r.id < %(before)s)
 order by r.id desc limit %(limit)s;

-- name: end_run
-- An open run ends, and the connector shows how; a dry run leaves no trace there but that it is over.
with ended as (
    update connector_run r
       set status = %(status)s, stage = 'ended', completed_at = clock_now(), error_code = %(code)s,
           error_message = %(message)s, rate_limited_until = null,
           checkpoint = (select jsonb_agg(jsonb_build_object('scope', s.scope, 'kind', s.kind, 'mark', s.checkpoint) order by s.scope, s.kind)
                           from connector_stream s where s.connector_id = r.connector_id)
     where r.id = %(id)s and r.completed_at is null
    returning r.*),
shown as (
    update connector c
       set last_sync_status = case when e.dry_run then (
               select p.status from connector_run p
                where p.connector_id = c.id and p.id <> e.id and not p.dry_run order by p.id desc limit 1)
               else e.status end,
           last_sync_at = case when e.dry_run then c.last_sync_at else e.completed_at end,
           last_sync_error_code = case when e.dry_run then c.last_sync_error_code else e.error_code end,
           last_sync_error = case when e.dry_run then c.last_sync_error else e.error_message end,
           rate_limited_until = null, updated_at = clock_now()
      from ended e where c.id = e.connector_id)
select id from ended;

-- name: run_line
-- A line of a run's log.
insert into connector_run_line (run_id, level, message) values (%(run)s, %(level)s, %(message)s);

-- name: run_lines
-- The log of a run, after a cursor.
select no, at, level, message from connector_run_line
 where run_id = %(run)s and (%(after)s::bigint is null or no > %(after)s) order by no limit %(limit)s;

-- name: orphan_runs
-- Open runs that no living job makes.
select r.id, r.connector_id from connector_run r
 where r.completed_at is null and not exists (select from job j where j.id = r.job_id and j.state <> 'dead')
 order by r.id limit %(limit)s;

-- name: unscheduled
-- Connectors that should run by themselves, and have no schedule.
select c.id from connector c
 where c.enabled and not exists (select from schedule s where s.name = 'connector:' || c.id) limit %(limit)s;

-- name: identities
-- Accounts of a connector's tool, by id, after a cursor.
select user_id, name, email from connector_identity
 where connector_id = %(connector)s and (%(after)s::text is null or user_id > %(after)s collate "C")
   and (%(unmapped)s is false or email is null)
 order by user_id limit %(limit)s;

-- name: map_identity
-- An account has this address here, or none any more.
insert into connector_identity (connector_id, user_id, name, email) values (%(connector)s, %(user)s, '', %(email)s)
on conflict (connector_id, user_id) do update set email = excluded.email
returning user_id, name, email;

-- name: audiences_of_user
-- The audiences that an account is part of.
select key from connector_audience where connector_id = %(connector)s and %(user)s = any (users);

-- name: spread
-- Brings what audiences mean onto the records of every base; how many records that changed.
select connector_apply_audiences(%(connector)s, %(keys)s::text[], %(sources)s::text[]);

-- name: spread_list
-- The containers of a connector have its list, and the records none; or the containers an empty one, and records their own.
select count(item_set_acl(t.id, t.acl))::int from (
    select i.id, case when i.type = 'connector' then coalesce(c.acl, '{}') when c.acl is null then a.acl end as acl
      from connector c join connector_base b on b.connector_id = c.id
      join item i on (i.id = b.item_id or (i.parent_id = b.item_id and i.type = 'record')) and i.status <> 'deleting'
      left join connector_document d on d.connector_id = c.id and d.source_id = i.source_key and i.type = 'record'
      left join connector_audience a on a.connector_id = c.id and a.key = d.audience
     where c.id = %(connector)s order by i.type <> 'connector', i.id) t;

-- name: connector_failures
-- Documents that could not be read by the last run that tried.
select source_id, scope, kind, attempts, error_code, error_message, failed_at from connector_failure
 where connector_id = %(connector)s and (%(after)s::text is null or source_id > %(after)s collate "C")
 order by source_id limit %(limit)s;
