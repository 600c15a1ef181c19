-- name: streams
-- How far the streams of a connector are.
select scope, kind, checkpoint_version, checkpoint, listing, listed, lost, last_run_id from connector_stream where connector_id = %(connector)s;

-- name: save_stream
-- A run speaks of a stream: its checkpoint moves on, its listing begins, goes on or is whole; the number of its listing.
insert into connector_stream as s (connector_id, scope, kind, checkpoint_version, checkpoint, listing, listed, lost, last_run_id)
values (%(connector)s, %(scope)s, %(kind)s, %(mark_version)s, %(mark)s::jsonb, (%(listing)s in ('begin', 'at_once'))::int,
        %(listing)s in ('whole', 'at_once'), %(lost)s, %(run)s)
on conflict (connector_id, scope, kind) do update
   set checkpoint_version = coalesce(excluded.checkpoint_version, s.checkpoint_version), checkpoint = coalesce(excluded.checkpoint, s.checkpoint),
       listing = s.listing + (%(listing)s in ('begin', 'at_once'))::int, listed = %(listing)s in ('whole', 'at_once'),
       lost = %(lost)s,
       last_run_id = excluded.last_run_id, updated_at = clock_now()
returning listing;

-- name: end_stream
-- A stream that is followed no longer is forgotten, once it has no documents.
delete from connector_stream s
 where s.connector_id = %(connector)s and (s.last_run_id is distinct from %(run)s or s.lost)
   and not exists (select from connector_document d
                    where d.connector_id = s.connector_id and d.scope = s.scope and d.kind = s.kind);

-- name: known
-- What is known of documents.
select source_id, hash, audience from connector_document
 where connector_id = %(connector)s and source_id = any (%(sources)s::text[]);

-- name: keep_documents
-- Documents as they are from now on.
insert into connector_document as d (connector_id, source_id, scope, kind, locator, hash, audience, seen)
select %(connector)s, u.source_id, %(scope)s, %(kind)s, u.locator, u.hash, u.audience, %(seen)s
  from unnest(%(sources)s::text[], %(locators)s::jsonb[], %(hashes)s::bytea[], %(audiences)s::text[])
       u(source_id, locator, hash, audience)
 order by u.source_id
on conflict (connector_id, source_id) do update
   set scope = excluded.scope, kind = excluded.kind, locator = excluded.locator, hash = excluded.hash,
       audience = excluded.audience, seen = excluded.seen;

-- name: see_documents
-- A listing names documents.
update connector_document set seen = %(seen)s
 where connector_id = %(connector)s and scope = %(scope)s and kind = %(kind)s and source_id = any (%(sources)s::text[])
   and seen <> %(seen)s;

-- name: place_documents
-- Documents have other audiences; the audiences that they have now.
update connector_document d set audience = u.audience
  from unnest(%(sources)s::text[], %(audiences)s::text[]) u(source_id, audience)
 where d.connector_id = %(connector)s and d.source_id = u.source_id and d.audience <> u.audience
returning d.source_id;

-- name: forget_documents
-- Documents that the tool no longer has.
delete from connector_document where connector_id = %(connector)s and source_id = any (%(sources)s::text[]);

-- name: keep_failures
-- Documents that can't be read at present.
insert into connector_failure as f (connector_id, source_id, scope, kind, locator, run_id, error_code, error_message)
select %(connector)s, u.source_id, u.scope, u.kind, u.locator, %(run)s, u.code, u.message
  from unnest(%(sources)s::text[], %(scopes)s::text[], %(kinds)s::text[], %(locators)s::jsonb[], %(codes)s::text[],
              %(messages)s::text[]) u(source_id, scope, kind, locator, code, message)
on conflict (connector_id, source_id) do update
   set run_id = excluded.run_id, attempts = f.attempts + 1, error_code = excluded.error_code,
       error_message = excluded.error_message, locator = excluded.locator, failed_at = clock_now();

-- name: forget_failures
-- Documents that were read after all, or are gone.
delete from connector_failure where connector_id = %(connector)s and source_id = any (%(sources)s::text[]);

-- name: old_failures
-- Documents that an earlier run could not read.
select source_id, scope, kind, locator from connector_failure
 where connector_id = %(connector)s and run_id <> %(run)s order by source_id limit %(limit)s;

-- name: stale
-- Documents that the tool seems to have no more.
-- A whole listing did not name them, their scope is lost, or the run did not speak of their stream. `doubtful` ones are
-- asked for once more: all but those of a lost scope.
select d.source_id, d.scope, d.kind, d.locator, not coalesce(s.lost, false) as doubtful
  from connector_document d
  left join connector_stream s on s.connector_id = d.connector_id and s.scope = d.scope and s.kind = d.kind
 where d.connector_id = %(connector)s
   and (s.connector_id is null or s.lost or s.last_run_id is distinct from %(run)s or (s.listed and d.seen < s.listing))
 order by d.source_id;

-- name: all_known
-- The ids of all documents that are known.
select source_id, scope, kind, locator from connector_document where connector_id = %(connector)s;

-- name: count_documents
-- How many documents are known.
select count(*)::int from connector_document where connector_id = %(connector)s;

-- name: keep_audiences
-- Audiences as they are now; those whose meaning changed, which is yet to be spread.
with given as (
    select * from json_to_recordset(%(audiences)s::json)
        as u(key text, everybody boolean, emails text[], users text[], groups text[], complete boolean)),
kept as (
    insert into connector_audience as a (connector_id, key, everybody, emails, users, groups, complete, acl)
    select %(connector)s, g.key, g.everybody, g.emails, g.users, g.groups, g.complete, '{}' from given g order by g.key
    on conflict (connector_id, key) do update
       set everybody = excluded.everybody, emails = excluded.emails, users = excluded.users, groups = excluded.groups,
           complete = excluded.complete, as_of = clock_now()
    returning a.*)
select k.key from kept k where k.acl is distinct from connector_acl(k.*::connector_audience);

-- name: audience_lists
-- What audiences mean here.
select key, acl from connector_audience where connector_id = %(connector)s and key = any (%(keys)s::text[]);

-- name: audience_keys
-- The audiences that documents have.
select distinct audience from connector_document where connector_id = %(connector)s order by 1;

-- name: fail_closed
-- Audiences that could not be resolved: nobody but admins, until they are.
update connector_audience set complete = false, as_of = clock_now()
 where connector_id = %(connector)s and key = any (%(keys)s::text[]) and complete
returning key;

-- name: drop_audiences
-- Audiences that no document has any more.
delete from connector_audience a
 where a.connector_id = %(connector)s
   and not exists (select from connector_document d where d.connector_id = a.connector_id and d.audience = a.key);

-- name: keep_accounts
-- Accounts that permissions name, with the names that they have there.
insert into connector_identity as i (connector_id, user_id, name)
select %(connector)s, u.id, u.name from unnest(%(users)s::text[], %(names)s::text[]) u(id, name) order by u.id
on conflict (connector_id, user_id) do update set name = excluded.name where i.name <> excluded.name;

-- name: resolved
-- All permissions were resolved at this moment.
update connector set acl_as_of = clock_now() where id = %(connector)s;

-- name: set_container
-- The container of a connector in a base.
update connector_base set item_id = %(item)s, filled = true where connector_id = %(connector)s and base_id = %(base)s;

-- name: containers
-- The containers of a connector; `taken_out` when there was one, and somebody deleted it.
select b.base_id, i.id as item_id, b.filled and i.id is null as taken_out
  from connector_base b left join item i on i.id = b.item_id and i.status <> 'deleting'
 where b.connector_id = %(connector)s order by b.base_id;

-- name: drop_base
-- A base is fed no longer.
delete from connector_base where connector_id = %(connector)s and base_id = %(base)s;

-- name: records
-- The records of documents below a container.
select source_key, id, status from item
 where parent_id = %(container)s and type = 'record' and status <> 'deleting' and source_key = any (%(sources)s::text[]);

-- name: attached
-- The files below records, that their tool attached.
select i.parent_id, i.source_key, i.id from item i
 where i.parent_id = any (%(records)s::uuid[]) and i.type = 'file' and i.status <> 'deleting' and i.source ? 'attachmentId';

-- name: attachments_held
-- Which attachments of documents are filed wherever their document is.
select r.source_key as document, f.source_key as attachment
  from connector_base b join item r on r.parent_id = b.item_id and r.type = 'record' and r.status <> 'deleting'
  join item f on f.parent_id = r.id and f.type = 'file' and f.status <> 'deleting'
 where b.connector_id = %(connector)s and r.source_key = any (%(sources)s::text[])
 group by 1, 2 having count(*) = (
       select count(*) from connector_base c where c.connector_id = %(connector)s);

-- name: count_run
-- A run came further.
update connector_run
   set documents_processed = documents_processed + %(processed)s, documents_ingested = documents_ingested + %(ingested)s,
       documents_unchanged = documents_unchanged + %(unchanged)s, documents_pruned = documents_pruned + %(pruned)s,
       item_errors = item_errors + %(errors)s, total_batches = total_batches + %(batches)s, rate_limited_until = null,
       status = 'running', total_items = greatest(total_items, documents_processed + %(processed)s)
 where id = %(run)s and completed_at is null
returning id;

-- name: not_limited
-- The connector no longer waits for its tool.
update connector set rate_limited_until = null where id = %(connector)s and rate_limited_until is not null;

-- name: set_estimate
-- About how much a run will look at.
update connector_run set total_items = greatest(%(total)s, documents_processed) where id = %(run)s;

-- name: set_run_stage
-- A run goes on to its next stage.
update connector_run set stage = %(stage)s, status = 'running' where id = %(run)s and completed_at is null;

-- name: hold_deletions
-- The guard keeps a run from deleting so much at once.
update connector_run set deletions_held = %(count)s where id = %(run)s;

-- name: continue_run
-- A run has used up its time, and goes on later: how often that was.
update connector_run set status = 'partial', continuations = continuations + 1 where id = %(run)s and completed_at is null
returning continuations;

-- name: limit_run
-- A run waits for its tool.
with told as (
    update connector_run set rate_limited_until = clock_now() + %(wait)s where id = %(run)s and completed_at is null)
update connector set rate_limited_until = clock_now() + %(wait)s where id = %(connector)s returning rate_limited_until;

-- name: save_plan
-- What a dry run found.
update connector_run set plan = %(plan)s, documents_processed = %(processed)s where id = %(run)s;

-- name: is_pending
-- Whether something that a run filed is not indexed yet.
select exists (select from item i where i.cause = %(run)s and i.status in ('processing', 'reading', 'embedding'));

-- name: failed_items
-- How much of what a run filed could not be indexed.
select count(*)::int from connector_base b join item r on r.parent_id = b.item_id and r.type = 'record'
 where b.connector_id = %(connector)s and r.cause = %(run)s and r.status = 'failed';
