-- name: request_version
-- completed | failed -> active, with a new version; the live version stays searchable.
update item
   set wanted_version = wanted_version + 1, error_code = null, error_message = null, updated_at = clock_now(),
       status = case when is_container then 'preparing' else 'processing' end,
       cause = %(cause)s
 where id = any (%(ids)s::uuid[]) and status in ('completed', 'failed')
returning id, base_id, parent_id, type, title, status, error_code, error_message, warnings, source, size_bytes,
          wanted_version, live_version, chunk_count, left_out, created_at, updated_at, acl, metadata;

-- name: replace_item
-- any but deleting -> active, with new contents and a new version; the live version stays searchable.
update item
   set title = case when titled_by_source and %(titled_by_source)s then title else %(title)s end, titled_by_source = %(titled_by_source)s,
       source = %(source)s, blob_hash = %(blob)s, body = %(body)s, size_bytes = %(size)s,
       metadata = case when %(metadata)s::jsonb is null then metadata
                       when metadata ? 'tags' then jsonb_build_object('tags', metadata -> 'tags') || %(metadata)s::jsonb
                       else %(metadata)s::jsonb end, chunking = %(chunking)s::jsonb,
       wanted_version = wanted_version + 1, error_code = null, error_message = null, updated_at = clock_now(),
       status = case when is_container then 'preparing' else 'processing' end,
       cause = %(cause)s
 where id = %(id)s and status <> 'deleting'
returning id, base_id, parent_id, type, title, status, error_code, error_message, warnings, source, size_bytes,
          wanted_version, live_version, chunk_count, left_out, created_at, updated_at, acl, metadata, chunking, file_id;

-- name: request_changed_versions
-- any but deleting -> active | failed, for files that have changed on the disk since they were listed.
update item i
   set wanted_version = i.wanted_version + 1, size_bytes = u.size_bytes, fingerprint = u.fingerprint,
       expanded_version = case when u.error_code is null then i.expanded_version else i.wanted_version + 1 end,
       error_code = u.error_code, error_message = u.error_message, updated_at = clock_now(), cause = %(cause)s,
       status = case when u.error_code is not null then 'failed'
                     when i.is_container then 'preparing' else 'processing' end
  from unnest(%(ids)s::uuid[], %(sizes)s::bigint[], %(fingerprints)s::text[], %(codes)s::text[], %(messages)s::text[])
       u(id, size_bytes, fingerprint, error_code, error_message)
 where i.id = u.id and i.status <> 'deleting'
returning i.id, i.base_id, i.parent_id, i.type, i.title, i.status, i.error_code, i.error_message, i.warnings, i.source,
          i.size_bytes, i.wanted_version, i.live_version, i.chunk_count, i.left_out, i.created_at, i.updated_at, i.acl, i.metadata;

-- name: request_listed_versions
-- any but deleting -> active | failed, once for each child that a container's new version lists again.
update item i
   set listed_version = u.version, fingerprint = u.fingerprint, wanted_version = i.wanted_version + 1, size_bytes = u.size_bytes,
       expanded_version = case when u.error_code is null then i.expanded_version else i.wanted_version + 1 end,
       error_code = u.error_code, error_message = u.error_message, updated_at = clock_now(),
       cause = (select p.cause from item p where p.id = i.parent_id),
       status = case when u.error_code is not null then 'failed'
                     when i.is_container then 'preparing' else 'processing' end
  from unnest(%(ids)s::uuid[], %(versions)s::int[], %(sizes)s::bigint[], %(codes)s::text[], %(messages)s::text[],
              %(fingerprints)s::text[]) u(id, version, size_bytes, error_code, error_message, fingerprint)
 where i.id = u.id and i.status <> 'deleting' and i.listed_version < u.version
returning i.id, i.base_id, i.parent_id, i.type, i.title, i.status, i.error_code, i.error_message, i.warnings, i.source,
          i.size_bytes, i.wanted_version, i.live_version, i.chunk_count, i.left_out, i.created_at, i.updated_at, i.acl, i.metadata;

-- name: request_attachment_versions
-- any but deleting -> processing, for attachments that their document's new version still has, with its bytes.
update item i
   set listed_version = %(version)s, wanted_version = i.wanted_version + 1, blob_hash = u.blob, size_bytes = u.size,
       error_code = null, error_message = null, updated_at = clock_now(), status = 'processing',
       cause = (select p.cause from item p where p.id = i.parent_id)
  from unnest(%(ids)s::uuid[], %(blobs)s::bytea[], %(sizes)s::bigint[]) u(id, blob, size)
 where i.id = u.id and i.status <> 'deleting'
returning i.id, i.base_id, i.parent_id, i.type, i.title, i.status, i.error_code, i.error_message, i.warnings, i.source,
          i.size_bytes, i.wanted_version, i.live_version, i.chunk_count, i.left_out, i.created_at, i.updated_at, i.acl, i.metadata;

-- name: is_wanted
-- Whether a version of an item is still wanted.
select id from item where id = %(id)s and wanted_version = %(version)s and status not in ('deleting', 'completed');

-- name: lock_wanted_versions
-- Those of the documents whose version is still wanted, locked until the transaction ends.
select i.id from item i join unnest(%(ids)s::uuid[], %(versions)s::int[]) u(id, version)
    on i.id = u.id and i.wanted_version = u.version
 where i.status not in ('deleting', 'completed') order by i.id for no key update of i;

-- name: requeue_version
-- active | failed -> preparing | processing, for a version whose job is retried; no row when it is no longer wanted.
-- A container counts as not listed until the retry is done, so that its children do not decide its status before.
update item set status = case when is_container then 'preparing' else 'processing' end,
       error_code = null, error_message = null, updated_at = clock_now(),
       expanded_version = least(expanded_version, wanted_version - 1)
 where id = %(id)s and wanted_version = %(version)s and status not in ('deleting', 'completed')
returning id;

-- name: begin_listing
-- active | failed -> processing, for a container whose children are being filed; no row when the version is no longer wanted.
update item set status = 'processing', error_code = null, error_message = null, updated_at = clock_now(),
       expanded_version = least(expanded_version, wanted_version - 1)
 where id = %(id)s and wanted_version = %(version)s and status not in ('deleting', 'completed')
returning id;

-- name: begin_reading
-- active | failed -> reading, for documents whose version is still wanted.
-- Returns their sources, and what exists of this version and of the live one.
with locked as (
    select i.id from item i join unnest(%(ids)s::uuid[], %(versions)s::int[]) u(id, version)
      on i.id = u.id and i.wanted_version = u.version
     where i.status not in ('deleting', 'completed') order by i.id for no key update of i),
moved as (
    update item i set status = 'reading', error_code = null, error_message = null, updated_at = clock_now()
      from locked where i.id = locked.id returning i.*)
select i.id, i.base_id, i.parent_id, i.type, i.title, i.status, i.error_code, i.error_message, i.warnings, i.source,
       i.size_bytes, i.wanted_version, i.live_version, i.chunk_count, i.left_out, i.created_at, i.updated_at, i.acl, i.metadata, i.chunking, i.body,
       (select b.name from blob b where b.hash = i.blob_hash) as blob_name, live.content_hash as live_content, live.recipe as live_recipe,
       begun.content_hash as begun_content, begun.recipe as begun_recipe, i.attachments_content,
       live.validators as live_validators, i.titled_by_source,
       coalesce(i.source ->> 'render', (select p.source ->> 'render' from item p where p.id = i.parent_id)) as render,
       exists (select from item c where c.parent_id = i.id) as holds
  from moved i
  left join item_version live on live.item_id = i.id and live.version = i.live_version
  left join item_version begun on begun.item_id = i.id and begun.version = i.wanted_version;

-- name: begin_embedding
-- reading -> embedding, for versions with a first chunk. Only while the job's lease is held; locked rows are passed over.
update item i set status = 'embedding', updated_at = clock_now()
  from (select i.id from unnest(%(ids)s::uuid[], %(versions)s::int[], %(jobs)s::uuid[], %(leases)s::uuid[]) u(id, version, job, lease)
          join job j on j.id = u.job and j.lease = u.lease
          join item i on i.id = u.id and i.wanted_version = u.version
         where i.status = 'reading' for no key update of i skip locked) l
 where i.id = l.id
returning i.id;

-- name: mark_expanded
-- Notes that all children of containers' versions are filed, and how many were left out, by reason.
update item i set expanded_version = u.version, left_out = u.left_out, updated_at = clock_now()
  from unnest(%(ids)s::uuid[], %(versions)s::int[], %(left_out)s::jsonb[]) u(id, version, left_out)
 where i.id = u.id and i.wanted_version = u.version and i.status <> 'deleting'
returning i.id;

-- name: is_expanded
-- Whether a container's listing is done.
select id from item where id = %(id)s and expanded_version >= wanted_version and status <> 'deleting';

-- name: publish_versions
-- active | failed -> completed: the wanted versions become the live ones. A page that no one named gets its title with them.
update item i
   set status = 'completed', live_version = d.version, chunk_count = d.chunks, warnings = d.warnings,
       size_bytes = coalesce(d.size_bytes, i.size_bytes), error_code = null, error_message = null,
       document = d.document, updated_at = clock_now(),
       title = case when i.titled_by_source then coalesce(d.document ->> 'title', left(i.source ->> 'url', 500), i.title) else i.title end
  from json_to_recordset(%(documents)s::json)
       d(id uuid, version int, chunks int, warnings text[], size_bytes bigint, document jsonb)
 where i.id = d.id and i.wanted_version = d.version and i.status <> 'deleting'
returning i.id;

-- name: finish_unchanged
-- active | failed -> completed, for a wanted version that would equal the live one.
update item i
   set status = 'completed', error_code = null, error_message = null, updated_at = clock_now(),
       title = case when i.titled_by_source then coalesce(i.document ->> 'title', left(i.source ->> 'url', 500), i.title) else i.title end
  from unnest(%(ids)s::uuid[], %(versions)s::int[]) u(id, version)
 where i.id = u.id and i.wanted_version = u.version and i.status <> 'deleting'
returning i.id;

-- name: fail_version
-- active | failed -> failed, for good; the live version stays searchable.
update item
   set status = 'failed', error_code = %(code)s, error_message = %(message)s, updated_at = clock_now(),
       expanded_version = wanted_version
 where id = %(id)s and wanted_version = %(version)s and status <> 'deleting'
returning id;

-- name: abandon
-- active -> failed, and the version becomes unwanted: a worker that still makes it changes nothing any more.
update item set status = 'failed', wanted_version = wanted_version + 1, expanded_version = wanted_version + 1,
       error_code = %(code)s, error_message = %(message)s, updated_at = clock_now()
 where id = %(id)s and is_active
returning id;

-- name: fail_interrupted
-- active -> failed, for items that no job will process, so that a new version can be requested.
update item set status = 'failed', error_code = 'interrupted', error_message = 'Indexing was interrupted.',
       updated_at = clock_now()
 where id = any (%(ids)s::uuid[]) and is_active
returning id;

-- name: dismiss
-- any but deleting -> failed, for interrupted items that a user dismissed.
update item set status = 'failed', error_code = 'dismissed', error_message = 'Indexing was interrupted and dismissed.',
       wanted_version = wanted_version + 1, expanded_version = wanted_version + 1, updated_at = clock_now()
 where id = any (%(ids)s::uuid[]) and status <> 'deleting'
returning id;

-- name: mark_deleting
-- any -> deleting, for whole subtrees, resolved and written in one statement.
update item i set status = 'deleting', updated_at = clock_now()
  from item_subtree(%(roots)s::uuid[]) s where i.id = s.id and i.status <> 'deleting'
returning i.id;

-- name: derive_status
-- Derives the status of a container, and of those above it.
select item_derive_status(%(id)s);

-- name: derive_statuses
-- Derives the statuses of containers, and of those above them.
select item_derive_statuses(%(ids)s::uuid[]);

-- name: derive_statuses_above
-- Derives the statuses of the containers above these items.
select item_derive_statuses_above(%(ids)s::uuid[]);

-- name: derive_statuses_after_end
-- Derives the statuses of the containers above documents that have ended, without waiting for others while that changes nothing.
select item_derive_statuses_after_end(%(ids)s::uuid[]);
