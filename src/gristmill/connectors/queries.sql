-- name: insert_connector
-- Inserts a connector, unless its name is taken.
insert into connector (id, org_id, name, type, config, credentials, schedule, acl_schedule, enabled, acl)
values (%(id)s, %(org)s, %(name)s, %(type)s, %(config)s, %(credentials)s, %(schedule)s, %(acl_schedule)s, %(enabled)s,
        %(acl)s::text[])
on conflict do nothing
returning *, array[]::uuid[] as base_ids, clock_now() as read_at;

-- name: connector
-- One connector, with the bases that it feeds.
select c.*, array(select b.base_id from connector_base b join base on base.id = b.base_id and base.status <> 'deleting'
                   where b.connector_id = c.id order by b.base_id) as base_ids,
       clock_now() as read_at, (select s.next_at from schedule s where s.name = 'connector:' || c.id) as next_sync_at
  from connector c where c.id = %(id)s;

-- name: lock_connector
-- Locks a connector's row until the transaction ends.
select id from connector where id = %(id)s for no key update;

-- name: share_connector
-- Keeps a connector as it is until the transaction ends.
select id from connector where id = %(id)s for share;

-- name: connectors
-- Connectors of an organisation, oldest first, after a cursor; optionally of one name or one base.
select c.*, array(select b.base_id from connector_base b join base on base.id = b.base_id and base.status <> 'deleting'
                   where b.connector_id = c.id order by b.base_id) as base_ids,
       clock_now() as read_at, (select s.next_at from schedule s where s.name = 'connector:' || c.id) as next_sync_at
  from connector c
 where c.org_id = %(org)s
   and (%(after)s::uuid is null or c.id > %(after)s) and (%(name)s::text is null or lower(c.name) = lower(%(name)s))
   and (%(base)s::uuid is null or exists (select from connector_base b where b.connector_id = c.id and b.base_id = %(base)s))
 order by c.id limit %(limit)s;

-- name: update_connector
-- Changes what is given; no row when another connector has the name.
update connector c
   set name = coalesce(%(name)s, c.name), config = coalesce(%(config)s::jsonb, c.config),
       credentials = coalesce(%(credentials)s::bytea, c.credentials), schedule = coalesce(%(schedule)s, c.schedule),
       acl_schedule = coalesce(%(acl_schedule)s, c.acl_schedule), enabled = coalesce(%(enabled)s, c.enabled),
       acl = case when %(acl_given)s then %(acl)s::text[] else c.acl end, updated_at = clock_now()
 where c.id = %(id)s and not exists (
     select from connector o where o.org_id = c.org_id and lower(o.name) = lower(%(name)s) and o.id <> c.id)
returning id;

-- name: delete_connector
-- Deletes a connector with everything known about its documents and runs.
delete from connector where id = %(id)s returning id;

-- name: unscheduled_connectors
-- Enabled connectors without a schedule.
select c.id from connector c
 where c.enabled and not exists (select from schedule s where s.name = 'connector:' || c.id) limit %(limit)s;

-- name: attach_bases
-- Has a connector feed these bases too; the bases that are new.
insert into connector_base (connector_id, base_id) select %(id)s, unnest(%(bases)s::uuid[]) on conflict do nothing
returning base_id;

-- name: detach_bases
-- Has a connector no longer feed these bases; its containers there.
delete from connector_base where connector_id = %(id)s and base_id = any (%(bases)s::uuid[]) returning base_id, item_id;

-- name: containers
-- The containers of a connector; `is_deleted` when there was one and a user deleted it.
select b.base_id, i.id as item_id, b.filled and i.id is null as is_deleted
  from connector_base b left join item i on i.id = b.item_id and i.status <> 'deleting'
 where b.connector_id = %(connector)s order by b.base_id;

-- name: set_container
-- Records the container of a connector in a base.
update connector_base set item_id = %(item)s, filled = true where connector_id = %(connector)s and base_id = %(base)s;

-- name: forget_checkpoints
-- Has the open run, or the next one, read every stream from its beginning, and every document whatever its mark.
with unmarked as (
    update connector_document set mark = null where connector_id = %(id)s and mark is not null),
restarted as (
    update connector_run set stage = 'reading' where connector_id = %(id)s and completed_at is null and stage = 'pruning')
update connector_stream set checkpoint = null, checkpoint_version = null, listed = false, last_run_id = null
 where connector_id = %(id)s;

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
-- One run, with the number of its items that are not indexed yet.
select r.*, case when r.completed_at is not null then 0 else (
            select count(*) from item i where i.cause = r.id and i.is_active)
       end::int as pending
  from connector_run r where r.id = %(id)s;

-- name: runs
-- Runs of a connector, newest first, before a cursor.
select r.*, case when r.completed_at is not null then 0 else (
            select count(*) from item i where i.cause = r.id and i.is_active)
       end::int as pending
  from connector_run r
 where r.connector_id = %(connector)s and (%(before)s::uuid is null or r.id < %(before)s)
 order by r.id desc limit %(limit)s;

-- name: end_run
-- Ends an open run and shows on the connector how it ended; a dry run leaves the connector's last result as it was.
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

-- name: orphan_runs
-- Open runs whose job is gone or dead.
select r.id from connector_run r
 where r.completed_at is null and not exists (select from job j where j.id = r.job_id and j.state <> 'dead')
 order by r.id limit %(limit)s;

-- name: add_log_line
-- Writes a line into a run's log.
insert into connector_run_line (run_id, level, message) values (%(run)s, %(level)s, %(message)s);

-- name: log_lines
-- The log of a run, after a cursor.
select no, at, level, message from connector_run_line
 where run_id = %(run)s and (%(after)s::bigint is null or no > %(after)s) order by no limit %(limit)s;

-- name: add_progress
-- Raises the counters of an open run.
update connector_run
   set documents_processed = documents_processed + %(processed)s, documents_ingested = documents_ingested + %(ingested)s,
       documents_unchanged = documents_unchanged + %(unchanged)s, documents_pruned = documents_pruned + %(pruned)s,
       item_errors = item_errors + %(errors)s, total_batches = total_batches + %(batches)s, rate_limited_until = null,
       status = 'running', total_items = greatest(total_items, documents_processed + %(processed)s)
 where id = %(run)s and completed_at is null
returning id;

-- name: clear_rate_limit
-- The connector no longer waits for its tool.
update connector set rate_limited_until = null where id = %(connector)s and rate_limited_until is not null;

-- name: record_rate_limit
-- Shows on the run and on the connector until when they wait for the tool.
with limited as (
    update connector_run set rate_limited_until = clock_now() + %(wait)s where id = %(run)s and completed_at is null)
update connector set rate_limited_until = clock_now() + %(wait)s where id = %(connector)s returning rate_limited_until;

-- name: set_estimate
-- Records about how many documents a run will look at.
update connector_run set total_items = greatest(%(total)s, documents_processed) where id = %(run)s;

-- name: set_run_stage
-- Moves an open run to its next stage.
update connector_run set stage = %(stage)s, status = 'running' where id = %(run)s and completed_at is null;

-- name: hold_deletions
-- Records how many deletions the guard kept a run from.
update connector_run set deletions_held = %(count)s where id = %(run)s;

-- name: count_continuation
-- A run has used up its time budget and continues later: how often that has happened.
update connector_run set status = 'partial', continuations = continuations + 1 where id = %(run)s and completed_at is null
returning continuations;

-- name: save_plan
-- Saves the result of a dry run.
update connector_run set plan = %(plan)s, documents_processed = %(processed)s where id = %(run)s;

-- name: has_pending_items
-- Whether something that a run stored is not indexed yet.
select exists (select from item i where i.cause = %(run)s and i.is_active);

-- name: count_failed_items
-- How many of the documents that a run stored could not be indexed.
select count(*)::int from connector_base b join item r on r.parent_id = b.item_id and r.type = 'record'
 where b.connector_id = %(connector)s and r.cause = %(run)s and r.status = 'failed';

-- name: streams
-- The streams of a connector, with their checkpoints.
select scope, kind, checkpoint_version, checkpoint, listing, listed, lost, last_run_id
  from connector_stream where connector_id = %(connector)s;

-- name: stream
-- One stream of a connector, with its checkpoint.
select scope, kind, checkpoint_version, checkpoint, listing, listed, lost, last_run_id
  from connector_stream where connector_id = %(connector)s and scope = %(scope)s and kind = %(kind)s;

-- name: save_stream
-- A run reports on a stream: saves its checkpoint, begins, continues or completes its listing; the listing's number.
-- What follows a complete listing in the same run leaves it complete.
insert into connector_stream as s (connector_id, scope, kind, checkpoint_version, checkpoint, listing, listed, lost, last_run_id)
values (%(connector)s, %(scope)s, %(kind)s, %(version)s, %(checkpoint)s::jsonb, %(begins)s::boolean::int, %(completes)s, %(lost)s,
        %(run)s)
on conflict (connector_id, scope, kind) do update
   set checkpoint_version = coalesce(excluded.checkpoint_version, s.checkpoint_version), checkpoint = coalesce(excluded.checkpoint, s.checkpoint),
       listing = s.listing + %(begins)s::boolean::int, lost = %(lost)s,
       listed = %(completes)s or (s.listed and s.last_run_id = %(run)s and not %(begins)s::boolean),
       last_run_id = case when %(reports)s then excluded.last_run_id else s.last_run_id end, updated_at = clock_now()
returning listing;

-- name: delete_unfollowed_streams
-- Deletes streams that a run did not report on, or whose scope is lost, once they have no documents.
delete from connector_stream s
 where s.connector_id = %(connector)s and (s.last_run_id is distinct from %(run)s or s.lost)
   and not exists (select from connector_document d
                    where d.connector_id = s.connector_id and d.scope = s.scope and d.kind = s.kind);

-- name: documents
-- What is known of documents.
select source_id, hash, audience, mark from connector_document
 where connector_id = %(connector)s and source_id = any (%(sources)s::text[]);

-- name: save_documents
-- Saves what is known of documents that were read. An audience that was asked for later stays.
insert into connector_document as d
       (connector_id, source_id, scope, kind, locator, hash, audience, audience_as_of, seen, mark, folders)
select %(connector)s, u.source_id, %(scope)s, %(kind)s, u.locator, u.hash, u.audience, %(asked_at)s, %(listing)s, u.mark, u.folders
  from unnest(%(sources)s::text[], %(locators)s::jsonb[], %(hashes)s::bytea[], %(audiences)s::text[], %(marks)s::text[],
              %(folders)s::jsonb[]) u(source_id, locator, hash, audience, mark, folders)
 order by u.source_id
on conflict (connector_id, source_id) do update
   set scope = excluded.scope, kind = excluded.kind, locator = excluded.locator, hash = excluded.hash,
       audience = case when d.audience_as_of > excluded.audience_as_of then d.audience else excluded.audience end,
       audience_as_of = greatest(d.audience_as_of, excluded.audience_as_of),
       seen = excluded.seen, mark = excluded.mark, folders = excluded.folders, missing = false;

-- name: mark_documents_seen
-- Records that a listing, or a report of changes, named documents.
update connector_document set seen = %(listing)s, missing = false
 where connector_id = %(connector)s and scope = %(scope)s and kind = %(kind)s and source_id = any (%(sources)s::text[])
   and (seen <> %(listing)s or missing);

-- name: delete_documents
-- Forgets documents that the tool no longer has.
delete from connector_document where connector_id = %(connector)s and source_id = any (%(sources)s::text[]);

-- name: stale_documents
-- Documents that the tool no longer seems to have.
-- A complete listing did not name them, the tool reports them as gone, their scope is lost, or the run did not report on their
-- stream. All but those of a lost scope must be verified: the tool is asked for each of them.
select d.source_id, d.scope, d.kind, d.locator, not coalesce(s.lost, false) as must_verify
  from connector_document d
  left join connector_stream s on s.connector_id = d.connector_id and s.scope = d.scope and s.kind = d.kind
 where d.connector_id = %(connector)s
   and (s.connector_id is null or s.lost or s.last_run_id is distinct from %(run)s or d.missing)
 order by d.source_id;

-- name: known_refs
-- All documents that are known.
select source_id, scope, kind, locator, mark, missing as is_missing from connector_document where connector_id = %(connector)s;

-- name: count_documents
-- How many documents are known.
select count(*)::int from connector_document where connector_id = %(connector)s;

-- name: save_failures
-- Saves documents that could not be read.
insert into connector_failure as f (connector_id, source_id, scope, kind, locator, run_id, error_code, error_message)
select %(connector)s, u.source_id, u.scope, u.kind, u.locator, %(run)s, u.code, u.message
  from unnest(%(sources)s::text[], %(scopes)s::text[], %(kinds)s::text[], %(locators)s::jsonb[], %(codes)s::text[],
              %(messages)s::text[]) u(source_id, scope, kind, locator, code, message)
on conflict (connector_id, source_id) do update
   set run_id = excluded.run_id, attempts = f.attempts + 1, error_code = excluded.error_code,
       error_message = excluded.error_message, locator = excluded.locator, failed_at = clock_now();

-- name: count_failures_of
-- How many of these documents a run could not read.
select count(*)::int from connector_failure
 where connector_id = %(connector)s and source_id = any (%(sources)s::text[]) and run_id = %(run)s and error_code <> 'not_read_yet';

-- name: delete_failures
-- Forgets failures of documents that were read after all, or are gone.
delete from connector_failure where connector_id = %(connector)s and source_id = any (%(sources)s::text[]);

-- name: save_unread
-- Notes the documents that a listing named and whose present state was not read:
-- never read, with another mark now, or missing until now.
insert into connector_failure
       (connector_id, source_id, scope, kind, locator, run_id, error_code, error_message, attempts, content_mark)
select %(connector)s, u.source_id, u.scope, u.kind, u.locator, %(run)s, %(code)s, %(message)s, 0, u.content_mark
  from unnest(%(sources)s::text[], %(scopes)s::text[], %(kinds)s::text[], %(locators)s::jsonb[], %(marks)s::text[],
              %(content_marks)s::text[])
       u(source_id, scope, kind, locator, mark, content_mark)
 where not exists (select from connector_document d where d.connector_id = %(connector)s and d.source_id = u.source_id
                      and (u.mark is null or d.mark = u.mark) and not d.missing)
on conflict (connector_id, source_id) do nothing;

-- name: unread
-- Documents that a listing named and whose present state was never read.
select source_id, scope, kind, locator from connector_failure
 where connector_id = %(connector)s and error_code = 'not_read_yet' order by source_id limit %(limit)s;

-- name: earlier_failures
-- Documents that an earlier run could not read, those first that were not tried for the longest time.
select source_id, scope, kind, locator from connector_failure
 where connector_id = %(connector)s and run_id <> %(run)s order by failed_at, source_id limit %(limit)s;

-- name: failures
-- Documents that the last run that tried could not read, by id, after a cursor.
select source_id, scope, kind, attempts, error_code, error_message, failed_at from connector_failure
 where connector_id = %(connector)s and (%(after)s::text is null or source_id > %(after)s collate "C")
 order by source_id limit %(limit)s;

-- name: save_identities
-- Saves the accounts that permissions name, with their names in the tool.
insert into connector_identity as i (connector_id, user_id, name)
select %(connector)s, u.id, u.name from unnest(%(users)s::text[], %(names)s::text[]) u(id, name) order by u.id
on conflict (connector_id, user_id) do update set name = excluded.name where i.name <> excluded.name;

-- name: identities
-- Accounts of a connector's tool, by id, after a cursor.
select user_id, name, email from connector_identity
 where connector_id = %(connector)s and (%(after)s::text is null or user_id > %(after)s collate "C")
   and (%(unmapped)s is false or email is null)
 order by user_id limit %(limit)s;

-- name: map_identity
-- Maps an account to an email address, or removes the mapping.
insert into connector_identity (connector_id, user_id, name, email) values (%(connector)s, %(user)s, '', %(email)s)
on conflict (connector_id, user_id) do update set email = excluded.email
returning user_id, name, email;

-- name: records
-- The records of documents below a container.
select source_key, id from item
 where parent_id = %(container)s and type = 'record' and status <> 'deleting' and source_key = any (%(sources)s::text[]);

-- name: fully_stored
-- Documents that have a record in every base of the connector; a base where a person deleted the record or the container does not count.
select u.source_id from unnest(%(sources)s::text[]) u(source_id)
 where not exists (
       select from connector_base b left join item c on c.id = b.item_id and c.status <> 'deleting'
        where b.connector_id = %(connector)s and (c.id is not null or not b.filled)
          and not exists (select from item r where r.parent_id = c.id and r.type = 'record' and r.status <> 'deleting'
                             and r.source_key = u.source_id)
          and not exists (select from exclusion e where e.root_id = c.id and e.type = 'record'
                             and md5(e.source_key) = md5(u.source_id) and e.source_key = u.source_id));

-- name: attached_files
-- The files below records that came as attachments of their document.
select i.parent_id, i.source_key, i.id, coalesce(i.source ->> 'name', '') as name from item i
 where i.parent_id = any (%(records)s::uuid[]) and i.type = 'file' and i.status <> 'deleting' and i.source ? 'attachmentId';

-- name: stored_attachments
-- Attachments of documents that every base of the connector has.
select r.source_key as document, f.source_key as attachment
  from connector_base b join item r on r.parent_id = b.item_id and r.type = 'record' and r.status <> 'deleting'
  join item f on f.parent_id = r.id and f.type = 'file' and f.status <> 'deleting'
 where b.connector_id = %(connector)s and r.source_key = any (%(sources)s::text[])
 group by 1, 2 having count(*) = (
       select count(*) from connector_base c where c.connector_id = %(connector)s);

-- name: forget_records
-- Forgets what is known of documents whose exclusion from a container was removed.
-- The next run reads them again. They are noted, because a run that reads only changes does not name them. No run has that id.
with forgotten as (
    delete from connector_document d using connector_base b
     where b.item_id = any (%(containers)s::uuid[]) and d.connector_id = b.connector_id and d.source_id = any (%(sources)s::text[])
    returning d.connector_id, d.source_id, d.scope, d.kind, d.locator)
insert into connector_failure (connector_id, source_id, scope, kind, locator, run_id, error_code, error_message, attempts)
select connector_id, source_id, scope, kind, locator, uuidv7(), %(code)s, %(message)s, 0 from forgotten
on conflict (connector_id, source_id) do nothing;

-- name: old_sealed_credentials
-- Credentials that are not sealed by the current key, in the order of their ids, locked.
select id, credentials as sealed from connector
 where substring(credentials for 11) <> %(prefix)s and (%(after)s::uuid is null or id > %(after)s)
 order by id limit %(limit)s for update;

-- name: replace_sealed_credentials
-- Writes credentials that were sealed again.
update connector set credentials = %(sealed)s where id = %(id)s;
