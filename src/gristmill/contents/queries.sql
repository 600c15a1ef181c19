-- name: ensure_contents
-- Creates contents that do not exist; returns the lengths of those that are complete.
-- Locks their rows, so that they are not collected meanwhile.
insert into content (hash) select u.hash from unnest(%(hashes)s::bytea[]) u(hash) order by 1
on conflict (hash) do update set hash = excluded.hash
returning hash, characters;

-- name: insert_content_parts
-- Stores parts of contents that do not exist yet.
insert into content_part (content_hash, start, text, page, boxes)
select u.hash, u.start, u.text, u.page, u.boxes
  from unnest(%(hashes)s::bytea[], %(starts)s::bigint[], %(texts)s::text[], %(pages)s::int[], %(boxes)s::bytea[])
       u(hash, start, text, page, boxes)
on conflict do nothing;

-- name: mark_contents_complete
-- Notes that all parts of contents are stored.
update content c set characters = u.characters, warnings = u.warnings, document = u.document
  from json_to_recordset(%(contents)s::json) u(hash text, characters bigint, warnings text[], document jsonb)
 where c.hash = decode(u.hash, 'hex') and c.characters is null;

-- name: find_complete_content
-- The warnings about a complete content, and what the document says of itself.
select warnings, document from content where hash = %(hash)s and characters is not null;

-- name: content_parts
-- Parts of a content, from an offset on.
select start, text, page, boxes from content_part where content_hash = %(hash)s and start >= %(after)s order by start limit 16;

-- name: resume_point
-- The last stored page and its offset, if everything before it is stored.
with last as (
    select p.page, min(p.start) as start from content_part p
     where p.content_hash = %(hash)s and p.page is not null group by p.page order by p.page desc limit 1)
select l.page, l.start from last l
 where l.page > 1 and l.start = (
    select sum(length(p.text)) from content_part p where p.content_hash = %(hash)s and p.start < l.start);

-- name: save_versions
-- Links versions of items to their contents, and to the recipes that chunk and embed them.
insert into item_version (item_id, version, content_hash, recipe, original, validators)
select u.item, u.version, u.hash, u.recipe, u.original, u.validators::jsonb
  from unnest(%(items)s::uuid[], %(versions)s::int[], %(hashes)s::bytea[], %(recipes)s::text[], %(originals)s::bytea[],
              %(validators)s::text[]) u(item, version, hash, recipe, original, validators)
on conflict (item_id, version) do update
   set content_hash = excluded.content_hash, recipe = excluded.recipe, original = excluded.original,
       validators = excluded.validators;

-- name: save_timelines
-- Saves how long versions took, whether all their images are described, and since when the item has this content.
update item_version v set timeline = d.timeline, analysed = d.analysed, changed_at = coalesce((
           select o.changed_at from item i join item_version o on o.item_id = i.id and o.version = i.live_version
            where i.id = v.item_id and o.content_hash = v.content_hash), v.changed_at)
  from json_to_recordset(%(documents)s::json) d(id uuid, version int, timeline jsonb, analysed boolean)
 where v.item_id = d.id and v.version = d.version;

-- name: delete_old_versions
-- Deletes every version except the live one and those that are to be kept; returns what they were made of.
with old as materialized (
    select v.item_id, v.version,
           v.timeline <> '{}' and v.version < i.live_version
           and (v.content_hash, v.original) is distinct from (n.content_hash, n.original)
           and item_keeps_versions(i.id, i.base_id) as is_kept
      from item_version v
      join item i on i.id = v.item_id
      left join item_version n on n.item_id = i.id and n.version = i.live_version
     where v.item_id = any (%(ids)s::uuid[]) and v.version is distinct from i.live_version),
kept as (
    update item_version v set replaced_at = coalesce(v.replaced_at, clock_now())
      from old o where o.is_kept and v.item_id = o.item_id and v.version = o.version)
delete from item_version v using old o
 where o.is_kept is not true and v.item_id = o.item_id and v.version = o.version
returning v.item_id, v.content_hash, v.original;

-- name: find_expired_versions
-- Kept versions whose time is over, of items that no hold covers.
select i.base_id, v.item_id, v.version from item_version v
  join item i on i.id = v.item_id
  left join retention r on r.base_id = i.base_id
 where v.replaced_at is not null and v.version <> i.live_version and i.status <> 'deleting'
   and v.replaced_at < clock_now() - make_interval(days => coalesce(r.version_days, 0))
   and (%(base)s::uuid is null or i.base_id = %(base)s) and not item_is_held(i.id, i.base_id)
 order by v.replaced_at limit %(limit)s;

-- name: delete_versions
-- Deletes these versions; returns what they were made of.
delete from item_version v using unnest(%(items)s::uuid[], %(versions)s::int[]) u(item, version)
 where v.item_id = u.item and v.version = u.version
returning v.item_id, v.content_hash, v.original;

-- name: kept_versions
-- The versions of an item that newer ones replaced and that are kept, the newest first.
select v.version, v.content_hash, v.original, v.created_at, v.replaced_at, c.characters
  from item_version v join content c on c.hash = v.content_hash join item i on i.id = v.item_id
 where v.item_id = %(item)s and v.replaced_at is not null and v.version <> i.live_version
   and (%(before)s::int is null or v.version < %(before)s::int)
 order by v.version desc limit %(limit)s;

-- name: kept_version_parts
-- The content of a kept version in parts, from an offset on.
select p.start, p.text, p.page from item_version v
  join content_part p on p.content_hash = v.content_hash
 where v.item_id = %(item)s and v.version = %(version)s and v.replaced_at is not null and p.start >= %(after)s
 order by p.start limit %(limit)s;

-- name: live_parts
-- The content of the live version in parts, from an offset on.
select p.start, p.text, p.page from item i
  join item_version v on v.item_id = i.id and v.version = i.live_version
  join content_part p on p.content_hash = v.content_hash
 where i.id = %(id)s and p.start >= %(after)s
 order by p.start limit %(limit)s;

-- name: live_original_name
-- The name in the store of a page's bytes, as they were fetched for the live version.
select b.name from item i
  join item_version v on v.item_id = i.id and v.version = i.live_version
  join blob b on b.hash = v.original
 where i.id = %(id)s;

-- name: live_content
-- The hash of the content of the live version, how many characters it has, and when that version was begun.
select v.content_hash, c.characters, v.created_at from item i
  join item_version v on v.item_id = i.id and v.version = i.live_version
  join content c on c.hash = v.content_hash
 where i.id = %(id)s;

-- name: timeline
-- How long each stage of the live version took.
select v.timeline from item i
  join item_version v on v.item_id = i.id and v.version = i.live_version
 where i.id = %(id)s;

-- name: insert_attachments
-- Stores attachments of contents.
insert into attachment (content_hash, fingerprint, number, name, blob_hash, size)
select u.content, u.fingerprint, u.number, u.name, u.blob, u.size
  from unnest(%(contents)s::bytea[], %(fingerprints)s::bytea[], %(numbers)s::int[], %(names)s::text[], %(blobs)s::bytea[],
              %(sizes)s::bigint[]) u(content, fingerprint, number, name, blob, size)
on conflict do nothing;

-- name: content_attachments
-- The attachments of a content, in order.
select number, name, blob_hash as blob, size from attachment where content_hash = %(content)s order by number, fingerprint;

-- name: insert_content_assets
-- Stores images and tables of contents.
insert into content_asset (content_hash, hash, number, kind, media_type, size, page, start, "end", caption, inline, blob_hash)
select decode(u.content, 'hex'), decode(u.hash, 'hex'), u.number, u.kind, u.media_type, u.size, u.page, u.start, u."end",
       u.caption, u.inline, decode(u.blob, 'hex')
  from json_to_recordset(%(assets)s::json)
       u(content text, hash text, number int, kind text, media_type text, size bigint, page int, start bigint, "end" bigint,
         caption text, inline boolean, blob text)
on conflict do nothing;

-- name: mark_assets_inline
-- Marks images whose text is part of the content.
update content_asset set inline = true where content_hash = %(content)s and hash = any (%(hashes)s::bytea[]);

-- name: content_assets
-- The images and tables of a content, in order.
select hash, number, kind, media_type, size, page, start, "end", caption, inline, blob_hash
  from content_asset where content_hash = %(content)s order by number, hash;

-- name: reusable_descriptions
-- Earlier descriptions of images with these hashes by one analyst, for any item or for one.
select distinct on (a.hash) a.hash, a.text from asset a
 where a.hash = any (%(hashes)s::bytea[]) and a.analyst = %(analyst)s and a.state = 'described'
   and (%(item)s::uuid is null or a.item_id = %(item)s)
 order by a.hash, a.item_id, a.version;

-- name: sample_descriptions
-- Some descriptions of images in a base by one analyst.
select a.text from item i join asset a on a.item_id = i.id and a.version = i.live_version
 where i.base_id = %(base)s and a.analyst = %(analyst)s and a.state = 'described' limit %(limit)s;

-- name: insert_version_assets
-- () -> described | waiting, for the images of versions.
insert into asset (item_id, version, hash, analyst, state, text)
select u.item, u.version, u.hash, u.analyst, case when u.text is null then 'waiting' else 'described' end,
       coalesce(u.text, '')
  from unnest(%(items)s::uuid[], %(versions)s::int[], %(hashes)s::bytea[], %(analysts)s::text[], %(texts)s::text[])
       u(item, version, hash, analyst, text)
on conflict do nothing;

-- name: next_waiting_asset
-- The next waiting image of a live version, unless its item is being deleted.
select a.hash, c.media_type, c.page, c.start, a.state = 'asking' as asking, b.name as blob, i.index_title as title
  from asset a
  join item i on i.id = a.item_id and i.live_version = a.version and i.status <> 'deleting'
  join item_version v on v.item_id = a.item_id and v.version = a.version
  join content_asset c on c.content_hash = v.content_hash and c.hash = a.hash
  join blob b on b.hash = c.blob_hash
 where a.item_id = %(item)s and a.version = %(version)s and a.state in ('waiting', 'asking')
 order by c.number, a.hash limit 1;

-- name: mark_asset_asking
-- waiting -> asking.
update asset set state = 'asking' where item_id = %(item)s and version = %(version)s and hash = %(hash)s;

-- name: release_asset
-- asking -> waiting.
update asset set state = 'waiting'
 where item_id = %(item)s and version = %(version)s and hash = %(hash)s and state = 'asking';

-- name: record_description
-- waiting | asking -> described.
update asset set state = 'described', text = %(text)s, error_code = null, error_message = null
 where item_id = %(item)s and version = %(version)s and hash = %(hash)s;

-- name: fail_assets
-- waiting | asking -> failed.
update asset set state = 'failed', error_code = %(code)s, error_message = %(message)s
 where item_id = %(item)s and version = %(version)s and state in ('waiting', 'asking')
   and (%(hash)s::bytea is null or hash = %(hash)s);

-- name: mark_analysed
-- Notes, once, that no image of a version waits any more.
with noted as (
    update item_version v set analysed = true
     where v.item_id = %(item)s and v.version = %(version)s and not v.analysed
       and not exists (select from asset a where a.item_id = v.item_id and a.version = v.version
                          and a.state in ('waiting', 'asking'))
    returning v.item_id, v.version)
select (select count(*)::int from asset a where a.item_id = n.item_id and a.version = n.version) as assets,
       (select count(*)::int from asset a where a.item_id = n.item_id and a.version = n.version and a.state = 'failed') as failed,
       i.warnings
  from noted n join item i on i.id = n.item_id;

-- name: retry_failed_assets
-- failed -> waiting, in live versions.
with back as (
    update asset a set state = 'waiting', error_code = null, error_message = null
      from item i where i.id = any (%(ids)s::uuid[]) and a.item_id = i.id and a.version = i.live_version and a.state = 'failed'
    returning a.item_id, a.version)
select distinct item_id as id, version from back order by 1;

-- name: set_recipe
-- Notes how the chunks of the live versions of items are made by now.
update item_version v set recipe = %(recipe)s from item i
 where i.id = any (%(items)s::uuid[]) and v.item_id = i.id and v.version = i.live_version and v.recipe is distinct from %(recipe)s;

-- name: live_assets
-- The images and tables of the live version, with their descriptions.
select c.hash, c.number, c.kind, c.media_type, c.size, c.page, c.start, c."end", c.caption, c.inline, c.blob_hash,
       a.state, a.text, a.error_code, a.error_message
  from item i
  join item_version v on v.item_id = i.id and v.version = i.live_version
  join content_asset c on c.content_hash = v.content_hash
  left join asset a on a.item_id = i.id and a.version = v.version and a.hash = c.hash
 where i.id = %(item)s and c.number > %(after)s and (%(hash)s::bytea is null or c.hash = %(hash)s)
 order by c.number, c.hash limit %(limit)s;

-- name: blob_name
-- The name of a blob in the store.
select name from blob where hash = %(hash)s;

-- name: item_blob_name
-- The name of an uploaded file's bytes in the store.
select b.name from item i join blob b on b.hash = i.blob_hash where i.id = %(id)s;

-- name: item_blob_names
-- The names of uploaded files' bytes in the store, by item.
select i.id, b.name from item i join blob b on b.hash = i.blob_hash where i.id = any (%(ids)s::uuid[]);

-- name: find_conversion
-- The conversion for a version of an item.
select item_id, version, processor, remote_id, checks, waited, progress, position
  from conversion where item_id = %(item)s and version = %(version)s;

-- name: save_conversion
-- () | starting | in progress -> starting | in progress.
insert into conversion (item_id, version, processor, remote_id, checks, waited, progress, position)
values (%(item)s, %(version)s, %(processor)s, %(remote_id)s, %(checks)s, %(waited)s, %(progress)s, %(position)s)
on conflict (item_id, version) do update
   set remote_id = excluded.remote_id, checks = excluded.checks, waited = excluded.waited, progress = excluded.progress,
       position = excluded.position;

-- name: drop_conversions
-- Deletes the conversions of items, of one version or of all.
delete from conversion where item_id = any (%(ids)s::uuid[]) and (%(version)s::int is null or version = %(version)s)
returning item_id, version, processor, remote_id, checks, waited, progress, position;

-- name: orphan_conversions
-- Items with conversions that no job checks.
select distinct c.item_id from conversion c
 where not exists (select from job j where j.subject = c.item_id and j.kind = 'check_file_processing_result'
                      and j.state <> 'dead' and (j.payload ->> 'version')::int = c.version)
 limit %(limit)s;

-- name: lock_contents
-- Locks contents against use until the transaction ends; skips those that are in use right now.
select hash from content where hash = any (%(hashes)s::bytea[]) for update skip locked;

-- name: delete_unused_contents
-- Deletes contents that no version uses. The caller has locked them, so this snapshot is newer than the locks.
delete from content c
 where c.hash = any (%(hashes)s::bytea[]) and not exists (select from item_version v where v.content_hash = c.hash);

-- name: blobs_of_contents
-- The blobs of the attachments and images of contents.
select e.blob_hash from attachment e where e.content_hash = any (%(hashes)s::bytea[])
 union
select a.blob_hash from content_asset a where a.content_hash = any (%(hashes)s::bytea[]) and a.blob_hash is not null;

-- name: lock_blobs
-- Locks blobs against use until the transaction ends; waits for transactions that use them right now.
select hash from blob where hash = any (%(hashes)s::bytea[]) order by hash for update;

-- name: lock_blobs_skip_locked
-- The same; skips blobs that are in use right now.
select hash from blob where hash = any (%(hashes)s::bytea[]) order by hash for update skip locked;

-- name: touch_blob
-- Protects a blob from collection for a while; returns its name in the store.
update blob set touched_at = clock_now() where hash = %(hash)s returning name;

-- name: delete_unused_blobs
-- Deletes blobs that nothing uses, and marks their names for deletion.
-- The caller has locked them, so this snapshot is newer than the locks.
with deleted as (
    delete from blob b
     where b.hash = any (%(hashes)s::bytea[]) and blob_is_unused(b.hash)
    returning b.name)
insert into pending_blob_name (name, deleting) select name, true from deleted;

-- name: find_unused_blobs
-- Blobs that were stored a while ago and that nothing uses.
select hash from blob b
 where b.touched_at < clock_now() - interval '30 minutes' and blob_is_unused(b.hash)
 limit 10000;

-- name: lock_blobs_shared
-- Locks existing blobs against deletion until the transaction ends.
select hash from blob where hash = any (%(hashes)s::bytea[]) order by hash for share;

-- name: reserve_blob_name
-- () -> pending: bytes are about to get this name. A day is far more than that takes.
insert into pending_blob_name (name, deleting, due_at) values (%(name)s, false, clock_now() + interval '1 day');

-- name: claim_blob_name
-- pending -> (), unless it is marked for deletion.
delete from pending_blob_name where name = %(name)s and not deleting returning name;

-- name: register_blob
-- Creates a blob with this name; if one of equal bytes exists, returns its name.
insert into blob (hash, size, name) values (%(hash)s, %(size)s, %(name)s)
on conflict (hash) do update set touched_at = clock_now()
returning name;

-- name: mark_name_deleting
-- () | deleting -> deleting.
insert into pending_blob_name (name, deleting) values (%(name)s, true) on conflict (name) do nothing;

-- name: mark_overdue_names
-- pending -> deleting, for names that were reserved long ago and never registered.
update pending_blob_name set deleting = true, due_at = clock_now() where not deleting and due_at <= clock_now();

-- name: find_deleting_names
-- Names to delete from the store.
select name from pending_blob_name where deleting order by name limit %(limit)s;

-- name: drop_deleting_names
-- deleting -> (), after they are deleted from the store.
delete from pending_blob_name where name = any (%(names)s::text[]) and deleting;

-- name: lock_byte_removal
-- Let no bytes leave the store until the transaction ends; a back-up holds this for a moment.
select pg_advisory_xact_lock(hashtext('gristmill.blob_bytes'));

-- name: lock_byte_removal_shared
-- Remove bytes from the store: waits while a back-up lists them.
select pg_advisory_lock_shared(hashtext('gristmill.blob_bytes'));

-- name: unlock_byte_removal_shared
-- The bytes are removed.
select pg_advisory_unlock_shared(hashtext('gristmill.blob_bytes'));

-- name: names_in_store
-- All names whose bytes may be in the store: of blobs, of uploads under way, and those that are being deleted.
select name from blob union select name from pending_blob_name order by 1;
