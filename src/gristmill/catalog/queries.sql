-- name: insert_base
-- Creates a base and, by trigger, its partition.
insert into base (name, embedder, embedder_identity, dimensions, chunking, file_processor, on_restart)
values (%(name)s, %(embedder)s, %(embedder_identity)s, %(dimensions)s, %(chunking)s, %(file_processor)s, %(on_restart)s)
on conflict do nothing
returning *;

-- name: take_turn
-- Waits until nobody else changes the base, and keeps others out until the transaction ends.
select base_turn(%(base)s);

-- name: share_turn
-- Waits until nobody changes the base; workers share this turn with each other.
select base_turn_shared(%(base)s);

-- name: base
-- A base that is not being deleted.
select * from base where id = %(id)s and status <> 'deleting';

-- name: any_base
-- A base, whatever its state.
select * from base where id = %(id)s;

-- name: base_by_name
-- The base of a name, whatever its case.
select * from base where lower(name) = lower(%(name)s) and status <> 'deleting';

-- name: bases
-- All bases, oldest first, after a cursor.
select * from base
 where status <> 'deleting' and (%(after)s::uuid is null or id > %(after)s) order by id limit %(limit)s;

-- name: patch_base
-- Changes what is given; no row when the name is taken.
update base b
   set name = coalesce(%(name)s, b.name), chunking = coalesce(%(chunking)s::jsonb, b.chunking),
       file_processor = coalesce(%(file_processor)s, b.file_processor),
       on_restart = coalesce(%(on_restart)s, b.on_restart), updated_at = clock_now()
 where b.id = %(id)s and b.status <> 'deleting'
   and not exists (select from base o where lower(o.name) = lower(%(name)s) and o.status <> 'deleting' and o.id <> b.id)
returning *;

-- name: set_base_status
-- ready <-> failed, with the reason.
update base set status = %(status)s, error_code = %(code)s, error_message = %(message)s, updated_at = clock_now()
 where id = %(id)s and status <> 'deleting'
returning *;

-- name: doom_base
-- ready | failed -> deleting: hidden from now on, its name free.
update base set status = 'deleting', updated_at = clock_now() where id = %(id)s and status <> 'deleting' returning id;

-- name: be_quick
-- Waits for no lock longer than this, until the transaction ends.
set local lock_timeout = '500ms';

-- name: drop_base
-- Removes a base without items and, by trigger, its partition.
delete from base where id = %(id)s;

-- name: item_counts
-- Items of bases by status; what is being deleted does not count.
select base_id, status, count(*)::int as count from item
 where base_id = any (%(bases)s) and status <> 'deleting' group by base_id, status;

-- name: insert_items
-- Files items; what already failed is filed with its error. Without a cause, they have their parent's.
insert into item (base_id, parent_id, type, title, status, source, source_key, blob_hash, body, size_bytes,
                  listed_version, error_code, error_message, expanded_version, cause)
select %(base)s, %(parent)s::uuid, u.type, u.title, u.status, u.source, u.source_key, u.blob_hash, u.body, u.size_bytes,
       %(listed_version)s, u.error_code, u.error_message, case when u.error_code is null then 0 else 1 end,
       coalesce(%(cause)s::uuid, (select p.cause from item p where p.id = %(parent)s::uuid))
  from unnest(%(types)s::text[], %(titles)s::text[], %(statuses)s::text[], %(sources)s::jsonb[], %(keys)s::text[],
              %(blobs)s::bytea[], %(bodies)s::text[], %(sizes)s::bigint[], %(codes)s::text[], %(messages)s::text[])
       with ordinality u(type, title, status, source, source_key, blob_hash, body, size_bytes, error_code, error_message, n)
 order by u.n
returning id, base_id, parent_id, type, title, status, error_code, error_message, warnings, source, size_bytes,
          wanted_version, live_version, chunk_count, created_at, updated_at;

-- name: same
-- Which of these things are filed under a parent already; the number is their place in the question.
select u.n::int as place, i.id, i.status
  from unnest(%(types)s::text[], %(keys)s::text[]) with ordinality u(type, source_key, n)
  join item i on i.base_id = %(base)s and i.parent_id is not distinct from %(parent)s::uuid and i.type = u.type
             and md5(i.source_key) = md5(u.source_key) and i.source_key = u.source_key and i.status <> 'deleting'
 order by u.n, i.id;

-- name: replace_item
-- Gives an item new contents and wants a new version of it; what answers goes on answering.
update item
   set title = %(title)s, source = %(source)s, blob_hash = %(blob)s, body = %(body)s, size_bytes = %(size)s,
       wanted_version = wanted_version + 1, error_code = null, error_message = null, updated_at = clock_now(),
       status = case when type in ('directory', 'sitemap', 'connector') then 'preparing' else 'processing' end,
       cause = %(cause)s
 where id = %(id)s and status <> 'deleting'
returning id, base_id, parent_id, type, title, status, error_code, error_message, warnings, source, size_bytes,
          wanted_version, live_version, chunk_count, created_at, updated_at;

-- name: relist
-- Children that a container's new version lists again: wanted anew, each once.
update item i
   set listed_version = %(version)s, wanted_version = i.wanted_version + 1, size_bytes = u.size_bytes,
       expanded_version = case when u.error_code is null then i.expanded_version else i.wanted_version + 1 end,
       error_code = u.error_code, error_message = u.error_message, updated_at = clock_now(),
       cause = (select p.cause from item p where p.id = i.parent_id),
       status = case when u.error_code is not null then 'failed'
                     when i.type in ('directory', 'sitemap', 'connector') then 'preparing' else 'processing' end
  from unnest(%(ids)s::uuid[], %(sizes)s::bigint[], %(codes)s::text[], %(messages)s::text[])
       u(id, size_bytes, error_code, error_message)
 where i.id = u.id and i.status <> 'deleting' and i.listed_version < %(version)s
returning i.id, i.base_id, i.parent_id, i.type, i.title, i.status, i.error_code, i.error_message, i.warnings, i.source,
          i.size_bytes, i.wanted_version, i.live_version, i.chunk_count, i.created_at, i.updated_at;

-- name: stale_children
-- Children that an earlier version of a container listed and this one does not.
select id from item
 where parent_id = %(parent)s and listed_version > 0 and listed_version < %(version)s and status <> 'deleting';

-- name: item
-- An item, unless it or its base is being deleted.
select i.id, i.base_id, i.parent_id, i.type, i.title, i.status, i.error_code, i.error_message, i.warnings, i.source,
       i.size_bytes, i.wanted_version, i.live_version, i.chunk_count, i.created_at, i.updated_at
  from item i join base b on b.id = i.base_id
 where i.id = %(id)s and i.status <> 'deleting' and b.status <> 'deleting';

-- name: items_of
-- These items, whatever their state.
select id, base_id, parent_id, type, title, status, error_code, error_message, warnings, source, size_bytes,
       wanted_version, live_version, chunk_count, created_at, updated_at
  from item where id = any (%(ids)s::uuid[]) order by id;

-- name: items
-- Items of a base after a cursor: all of them, or the roots, or the children of one.
select id, base_id, parent_id, type, title, status, error_code, error_message, warnings, source, size_bytes,
       wanted_version, live_version, chunk_count, created_at, updated_at
  from item
 where base_id = %(base)s and (%(deleting)s or status <> 'deleting')
   and (%(everywhere)s or parent_id is not distinct from %(parent)s)
   and (%(status)s::text is null or status = %(status)s)
   and (%(type)s::text is null or type = %(type)s)
   and (%(under)s::uuid is null or id in (select s.id from item_subtree(array[%(under)s::uuid]) s where s.depth > 0))
   and (%(title)s::text is null or strpos(lower(title), lower(%(title)s)) > 0)
   and (%(after)s::uuid is null or id > %(after)s)
 order by id limit %(limit)s;

-- name: changes_mark
-- The start of the oldest transaction that is writing items, or now less what a statement may take to get that far.
select least(clock_now() - interval '500 ms', (
    select min(a.xact_start) from pg_locks l join pg_stat_activity a on a.pid = l.pid
     where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.relation = 'item'::regclass
       and l.database = (select oid from pg_database where datname = current_database())));

-- name: changes
-- Items that changed since a mark.
select id, base_id, updated_at from item
 where updated_at >= %(since)s and (%(bases)s::uuid[] is null or base_id = any (%(bases)s))
 order by updated_at desc limit %(limit)s;

-- name: outermost
-- Those of the items that have none of the others above them.
with recursive up(start, id) as (
    select i.id, i.parent_id from item i where i.id = any (%(ids)s::uuid[]) and i.parent_id is not null
    union all
    select u.start, i.parent_id from up u join item i on i.id = u.id where i.parent_id is not null)
select i.id from unnest(%(ids)s::uuid[]) i(id)
 where not exists (select from up u where u.start = i.id and u.id = any (%(ids)s::uuid[]))
 order by i.id;

-- name: unrested
-- What in each of these subtrees is neither completed nor failed, at most so many of each.
-- `whole`: it is the root itself, and being rebuilt with all that its source has.
select u.id, u.title, u.status, r.id as root, u.whole
  from unnest(%(roots)s::uuid[]) r(id) cross join lateral (
    select i.id, i.title, i.status,
           i.id = r.id and (i.type not in ('directory', 'sitemap', 'connector') or i.expanded_version < i.wanted_version)
           as whole
      from item_subtree(array[r.id]) s join item i on i.id = s.id
     where i.status not in ('completed', 'failed')
     order by i.status <> 'deleting', i.id <> r.id, i.id limit %(limit)s) u
 order by u.status <> 'deleting', u.id;

-- name: mark_deleting
-- any -> deleting, for whole subtrees; resolved and written in one statement.
update item i set status = 'deleting', updated_at = clock_now()
  from item_subtree(%(roots)s::uuid[]) s where i.id = s.id and i.status <> 'deleting'
returning i.id;

-- name: settle_above
-- Derives the containers above these items.
select item_settle(p.parent_id)
  from (select distinct parent_id from item where id = any (%(ids)s::uuid[]) and parent_id is not null order by 1) p;

-- name: want_anew
-- completed | failed -> active, with a new version; what answers goes on answering.
update item
   set wanted_version = wanted_version + 1, error_code = null, error_message = null, updated_at = clock_now(),
       status = case when type in ('directory', 'sitemap', 'connector') then 'preparing' else 'processing' end,
       cause = %(cause)s
 where id = any (%(ids)s::uuid[]) and status in ('completed', 'failed')
returning id, base_id, parent_id, type, title, status, error_code, error_message, warnings, source, size_bytes,
          wanted_version, live_version, chunk_count, created_at, updated_at;

-- name: added_below
-- What people put below a container: no listing will bring it up.
select i.id from item_subtree(array[%(root)s::uuid]) s join item i on i.id = s.id
 where s.depth > 0 and i.listed_version = 0 and i.status <> 'deleting';

-- name: deleting_below
-- Whether something at or below an item is being deleted.
select exists (select from item_subtree(array[%(root)s::uuid]) s join item i on i.id = s.id where i.status = 'deleting');

-- name: body
-- A note's text.
select body from item where id = %(id)s;

-- name: blob_of
-- The hash of an uploaded file's bytes.
select blob_hash from item where id = %(id)s;

-- name: set_stage
-- An item moves on within the version that is wanted; no row when the version is not, or no longer.
-- A container that had failed is listed anew: until that is done, its children don't say how it is.
update item set status = %(status)s, error_code = null, error_message = null, updated_at = clock_now(),
       expanded_version = least(expanded_version, wanted_version - 1)
 where id = %(id)s and wanted_version = %(version)s and status not in ('deleting', 'completed')
returning id;

-- name: wanted
-- Whether a version of an item is still wanted.
select id from item where id = %(id)s and wanted_version = %(version)s and status not in ('deleting', 'completed');

-- name: set_failed
-- An attempt at a version ended for good; what was searchable before stays so.
update item
   set status = 'failed', error_code = %(code)s, error_message = %(message)s, updated_at = clock_now(),
       expanded_version = wanted_version
 where id = %(id)s and wanted_version = %(version)s and status <> 'deleting'
returning id;

-- name: set_expanded
-- All children of a container's version are filed.
update item set expanded_version = %(version)s, updated_at = clock_now()
 where id = %(id)s and wanted_version = %(version)s and status <> 'deleting'
returning id;

-- name: settle
-- Derives a container, and those above it.
select item_settle(%(id)s);

-- name: abandon
-- An item gives up the version that is being made: whoever still makes it changes nothing any more.
update item set status = 'failed', wanted_version = wanted_version + 1, expanded_version = wanted_version + 1,
       error_code = %(code)s, error_message = %(message)s, updated_at = clock_now()
 where id = %(id)s and status not in ('completed', 'failed', 'deleting')
returning id;

-- name: publish_item
-- The version that is wanted becomes the one that answers.
update item
   set status = 'completed', live_version = %(version)s, chunk_count = %(chunks)s, warnings = %(warnings)s,
       error_code = null, error_message = null, updated_at = clock_now()
 where id = %(id)s and wanted_version = %(version)s and status <> 'deleting'
returning id;

-- name: keep_content
-- Stores canonical content once, whoever made it; the row is locked, so that nobody collects it meanwhile.
insert into content (hash, text, title) values (%(hash)s, %(text)s, %(title)s)
on conflict (hash) do update set hash = excluded.hash;

-- name: keep_version
-- Ties a version of an item to its content.
insert into item_version (item_id, version, content_hash) values (%(item)s, %(version)s, %(hash)s)
on conflict (item_id, version) do update set content_hash = excluded.content_hash;

-- name: forget_versions
-- Every version but the one that answers is forgotten; what they were made of.
delete from item_version v using item i
 where v.item_id = %(id)s and i.id = v.item_id and v.version is distinct from i.live_version
returning v.content_hash;

-- name: live_content
-- The canonical content of the version that answers.
select c.text from item i
  join item_version v on v.item_id = i.id and v.version = i.live_version
  join content c on c.hash = v.content_hash
 where i.id = %(id)s;

-- name: to_remove
-- Items of subtrees that are being deleted, and hold none.
select item_removable(%(roots)s::uuid[], %(limit)s::int);

-- name: items_of_base
-- Items of a base that hold none, whatever their state.
select i.id from item i
 where i.base_id = %(base)s and not exists (select from item c where c.parent_id = i.id) limit %(limit)s;

-- name: lock_items
-- Those of the items that are still there, the caller's alone until the transaction ends.
select id from item where id = any (%(ids)s::uuid[]) order by id for update;

-- name: remove_items
-- Items are gone, with their versions; what they used.
with hit as materialized (
    select id, blob_hash from item where id = any (%(ids)s::uuid[])),
used as materialized (
    select distinct v.content_hash as hash from item_version v where v.item_id = any (%(ids)s::uuid[])),
gone as (
    delete from item i using hit where i.id = hit.id returning i.id)
select (select count(*)::int from gone) as items,
       array(select hash from used) as contents,
       array(select distinct blob_hash from hit where blob_hash is not null) as blobs;

-- name: lock_contents
-- Contents that nobody takes into use until the transaction ends; one that is being used right now is passed over.
select hash from content where hash = any (%(hashes)s::bytea[]) for update skip locked;

-- name: collect_contents
-- Forgets contents that no version uses. The caller has locked them: this snapshot is newer than the locks.
delete from content c
 where c.hash = any (%(hashes)s::bytea[]) and not exists (select from item_version v where v.content_hash = c.hash);

-- name: lock_blobs
-- Blobs that nobody takes into use until the transaction ends; waits for who is doing so right now.
select hash from blob where hash = any (%(hashes)s::bytea[]) order by hash for update;

-- name: doom_blobs
-- kept -> removing, for blobs that no item uses. The caller has locked them: this snapshot is newer than the locks.
update blob b set state = 'removing'
 where b.hash = any (%(hashes)s::bytea[]) and b.state = 'kept'
   and not exists (select from item i where i.blob_hash = b.hash);

-- name: unused_blobs
-- Blobs that were stored long ago, and that no item uses.
select hash from blob b
 where b.state = 'kept' and b.kept_at < clock_now() - interval '30 minutes'
   and not exists (select from item i where i.blob_hash = b.hash)
 limit 10000;

-- name: removing_blobs
-- Blobs that are on their way out of the store, the caller's alone until the transaction ends.
select hash from blob where state = 'removing' order by hash limit %(limit)s for update;

-- name: forget_blobs
-- removing -> gone, once they are out of the store.
delete from blob where hash = any (%(hashes)s::bytea[]) and state = 'removing';

-- name: hold_blobs
-- Blobs that are kept, and stay so until the transaction ends.
select hash from blob where hash = any (%(hashes)s::bytea[]) and state = 'kept' order by hash for share;

-- name: keep_blob
-- () | removing -> kept; waits while the store removes the same bytes.
insert into blob (hash, size) values (%(hash)s, %(size)s)
on conflict (hash) do update set kept_at = clock_now(), state = 'kept';
