-- name: insert_base
-- Creates a base and, by trigger, its partition.
insert into base (name, embedder, embedder_identity, dimensions, chunking)
values (%(name)s, %(embedder)s, %(embedder_identity)s, %(dimensions)s, %(chunking)s)
on conflict do nothing
returning *;

-- name: base
-- A base that is not being deleted.
select * from base where id = %(id)s and status <> 'deleting';

-- name: base_for_change
-- The same, locked until the transaction ends: changes within one base take turns.
select * from base where id = %(id)s and status <> 'deleting' for no key update;

-- name: base_by_name
-- The base of a name, whatever its case.
select * from base where lower(name) = lower(%(name)s) and status <> 'deleting';

-- name: bases
-- All bases, oldest first, after a cursor.
select * from base
 where status <> 'deleting' and (%(after)s::uuid is null or id > %(after)s) order by id limit %(limit)s;

-- name: item_counts
-- Items of bases by status; what is being deleted does not count.
select base_id, status, count(*)::int as count from item
 where base_id = any (%(bases)s) and status <> 'deleting' group by base_id, status;

-- name: insert_items
-- Files items, all leaves, ready to be processed.
insert into item (base_id, parent_id, type, title, status, source, body, size_bytes)
select %(base)s, %(parent)s::uuid, u.type, u.title, 'processing', u.source, u.body, u.size_bytes
  from unnest(%(types)s::text[], %(titles)s::text[], %(sources)s::jsonb[], %(bodies)s::text[], %(sizes)s::bigint[])
       with ordinality u(type, title, source, body, size_bytes, n)
 order by u.n
returning id, base_id, parent_id, type, title, status, error_code, error_message, warnings, source, size_bytes,
          wanted_version, live_version, chunk_count, created_at, updated_at;

-- name: item
-- An item, unless it or its base is being deleted.
select i.id, i.base_id, i.parent_id, i.type, i.title, i.status, i.error_code, i.error_message, i.warnings, i.source,
       i.size_bytes, i.wanted_version, i.live_version, i.chunk_count, i.created_at, i.updated_at
  from item i join base b on b.id = i.base_id
 where i.id = %(id)s and i.status <> 'deleting' and b.status <> 'deleting';

-- name: items
-- Items of a base after a cursor: all of them, or the roots, or the children of one.
select id, base_id, parent_id, type, title, status, error_code, error_message, warnings, source, size_bytes,
       wanted_version, live_version, chunk_count, created_at, updated_at
  from item
 where base_id = %(base)s and status <> 'deleting'
   and (%(everywhere)s or parent_id is not distinct from %(parent)s)
   and (%(status)s::text is null or status = %(status)s)
   and (%(type)s::text is null or type = %(type)s)
   and (%(after)s::uuid is null or id > %(after)s)
 order by id limit %(limit)s;

-- name: body
-- A note's text.
select body from item where id = %(id)s;

-- name: set_stage
-- A leaf moves on within the version that is wanted; no row when the version is not, or no longer.
update item set status = %(status)s, error_code = null, error_message = null, updated_at = clock_now()
 where id = %(id)s and wanted_version = %(version)s and status not in ('deleting', 'completed')
returning id;

-- name: set_failed
-- A leaf's attempt at a version ended for good; what was searchable before stays so.
update item set status = 'failed', error_code = %(code)s, error_message = %(message)s, updated_at = clock_now()
 where id = %(id)s and wanted_version = %(version)s and status <> 'deleting'
returning id;

-- name: abandon
-- A leaf gives up the version that is being made: whoever still makes it changes nothing any more.
update item set status = 'failed', wanted_version = wanted_version + 1, error_code = %(code)s,
       error_message = %(message)s, updated_at = clock_now()
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
-- Stores canonical content once, whoever made it.
insert into content (hash, text, title) values (%(hash)s, %(text)s, %(title)s) on conflict do nothing;

-- name: keep_version
-- Ties a version of an item to its content.
insert into item_version (item_id, version, content_hash) values (%(item)s, %(version)s, %(hash)s)
on conflict (item_id, version) do update set content_hash = excluded.content_hash;

-- name: live_content
-- The canonical content of the version that answers.
select c.text from item i
  join item_version v on v.item_id = i.id and v.version = i.live_version
  join content c on c.hash = v.content_hash
 where i.id = %(id)s;

-- name: without_job
-- Leaves between two stages without a living job: there must be none.
select i.id from item i
 where i.status in ('processing', 'reading', 'embedding') and i.type in ('file', 'url', 'note', 'record')
   and not exists (select from job j where j.subject = i.id and j.state <> 'dead')
 limit 100;
