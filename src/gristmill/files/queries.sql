-- name: insert_file
-- Gives a blob a name and an id.
insert into stored_file (org_id, name, purpose, blob_hash, size, acl, expires_at)
values (%(org)s, %(name)s, %(purpose)s, %(blob)s, %(size)s, %(acl)s::text[],
        clock_now() + make_interval(secs => %(seconds)s::double precision))
returning id, name, purpose, blob_hash as blob, size, created_at, expires_at;

-- name: find_file
-- A file that principals see: by its own list, or because it is in a base where they see it.
select f.id, f.name, f.purpose, f.blob_hash as blob, f.size, f.created_at, f.expires_at from stored_file f
 where f.id = %(id)s and (%(org)s::uuid is null or f.org_id = %(org)s) and (f.expires_at is null or f.expires_at > clock_now())
   and (%(principals)s::text[] is null or f.acl && %(principals)s::text[] or exists (
        select from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
         where i.file_id = f.id and i.status <> 'deleting' and b.status <> 'deleting'
           and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)));

-- name: find_files
-- Those of the files that principals see by their own lists.
select f.id, f.name, f.purpose, f.blob_hash as blob, f.size, f.created_at, f.expires_at from stored_file f
 where f.id = any (%(ids)s::uuid[]) and (%(org)s::uuid is null or f.org_id = %(org)s)
   and (f.expires_at is null or f.expires_at > clock_now())
   and (%(principals)s::text[] is null or f.acl && %(principals)s::text[]);

-- name: find_item_file
-- A document that principals see, as a file: by the id of the file that it was made from, or by its own.
select coalesce(i.file_id, i.id) as id, coalesce(i.source ->> 'name', i.title) as name, 'assistants' as purpose,
       i.blob_hash as blob, coalesce(i.size_bytes, 0) as size, i.created_at, null::timestamptz as expires_at, i.id as item_id
  from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
 where (i.file_id = %(id)s or i.id = %(id)s and i.file_id is null) and not i.is_container and i.status <> 'deleting'
   and b.status <> 'deleting' and (%(org)s::uuid is null or b.org_id = %(org)s)
   and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)
   and not exists (select from stored_file f where f.id = %(id)s and f.expires_at <= clock_now())
 order by i.blob_hash is null, i.id limit 1;

-- name: list_files
-- Uploaded files that principals see by their own lists, up or down from a place.
select f.id, f.name, f.purpose, f.blob_hash as blob, f.size, f.created_at, f.expires_at from ((
    select * from stored_file f
     where %(down)s and f.org_id = %(org)s and (%(below)s::uuid is null or f.id < %(below)s)
       and (%(above)s::uuid is null or f.id > %(above)s)
       and (f.expires_at is null or f.expires_at > clock_now()) and (%(purpose)s::text is null or f.purpose = %(purpose)s)
       and (%(principals)s::text[] is null or f.acl && %(principals)s::text[])
     order by f.id desc limit %(limit)s)
    union all (
    select * from stored_file f
     where not %(down)s and f.org_id = %(org)s and (%(below)s::uuid is null or f.id < %(below)s)
       and (%(above)s::uuid is null or f.id > %(above)s)
       and (f.expires_at is null or f.expires_at > clock_now()) and (%(purpose)s::text is null or f.purpose = %(purpose)s)
       and (%(principals)s::text[] is null or f.acl && %(principals)s::text[])
     order by f.id limit %(limit)s)) f
 order by case when %(down)s then f.id end desc, f.id;

-- name: delete_file
-- Deletes a file; its blob, for the caller to remove if nothing else uses it.
delete from stored_file where id = %(id)s returning blob_hash;

-- name: find_expired_files
-- Files that have expired, and of which no legal hold covers an item.
select f.id from stored_file f
 where f.expires_at <= clock_now()
   and not exists (select from item i where (i.file_id = f.id or i.id = f.id) and item_is_held(i.id, i.base_id))
 order by f.expires_at limit %(limit)s;

-- name: items_of_file
-- The items that are made from a file, in any base.
select i.base_id, i.id as item_id from item i join base b on b.id = i.base_id
 where (i.file_id = %(id)s or i.id = %(id)s and i.file_id is null)
   and i.status <> 'deleting' and b.status <> 'deleting'
   and (%(org)s::uuid is null or b.org_id = %(org)s)
 order by i.base_id, i.id;

-- name: insert_batch
-- Creates a batch.
insert into file_batch (base_id) values (%(base)s) returning id, base_id, cancelled_at, created_at;

-- name: insert_batch_items
-- Notes the files of a batch, and the items that were made from them.
insert into file_batch_item (batch_id, file_id, item_id)
select %(batch)s, u.file, u.item from unnest(%(files)s::uuid[], %(items)s::uuid[]) u(file, item)
on conflict do nothing;

-- name: find_batch
-- A batch of a base.
select id, base_id, cancelled_at, created_at from file_batch where id = %(id)s and base_id = %(base)s;

-- name: mark_batch_cancelled
-- Notes that a batch was cancelled.
update file_batch set cancelled_at = coalesce(cancelled_at, clock_now()) where id = %(id)s
returning id, base_id, cancelled_at, created_at;

-- name: active_batch_items
-- Items of a batch that are still being processed.
select i.id from file_batch_item m join item i on i.id = m.item_id
 where m.batch_id = %(batch)s and i.is_active order by i.id;

-- name: batch_counts
-- How many files of a batch have which status.
select coalesce(item_file_status(i.id, i.status, i.error_code, p.paused), 'cancelled') as status, count(*)::int as count
  from file_batch b cross join lateral (select base_is_paused(b.base_id) as paused) p
  join file_batch_item m on m.batch_id = b.id left join item i on i.id = m.item_id
 where b.id = %(batch)s group by 1;

-- name: store_counts
-- How many documents and containers of bases, of those that principals see, have which status; and the bytes of documents.
select i.base_id, i.is_container, item_file_status(i.id, i.status, i.error_code, p.paused) as status, count(*)::int as count,
       coalesce(sum(i.size_bytes), 0)::bigint as bytes
  from unnest(%(bases)s::uuid[]) u(id) join base b on b.id = u.id
 cross join lateral (select base_is_paused(b.id) as paused) p
  join item i on i.base_id = b.id left join item o on o.id = i.acl_from
 where i.status <> 'deleting' and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)
 group by 1, 2, 3;

-- name: page_bases
-- Bases of which principals see something, up or down from a place.
select b.* from ((
    select * from base b
     where %(down)s and b.status <> 'deleting' and b.org_id = %(org)s
       and (%(below)s::uuid is null or b.id < %(below)s) and (%(above)s::uuid is null or b.id > %(above)s)
       and (%(principals)s::text[] is null or b.acl && %(principals)s::text[]
            or exists (select from item i where i.base_id = b.id and i.acl && %(principals)s::text[]))
     order by b.id desc limit %(limit)s)
    union all (
    select * from base b
     where not %(down)s and b.status <> 'deleting' and b.org_id = %(org)s
       and (%(below)s::uuid is null or b.id < %(below)s) and (%(above)s::uuid is null or b.id > %(above)s)
       and (%(principals)s::text[] is null or b.acl && %(principals)s::text[]
            or exists (select from item i where i.base_id = b.id and i.acl && %(principals)s::text[]))
     order by b.id limit %(limit)s)) b
 order by case when %(down)s then b.id end desc, b.id;

-- name: page_documents
-- Documents of a base that principals see, by the ids of their files, up or down from one that may be gone: all, of a status, of a batch.
select r.*, item_file_status(r.id, r.status, r.error_code, base_is_paused(%(base)s)) as file_status from ((
    select i.id from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where %(down)s and i.base_id = %(base)s and not i.is_container and i.status <> 'deleting'
       and (%(below)s::uuid is null or coalesce(i.file_id, i.id) < %(below)s) and (%(above)s::uuid is null or coalesce(i.file_id, i.id) > %(above)s)
       and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)
       and (%(status)s::text is null or item_file_status(i.id, i.status, i.error_code, base_is_paused(%(base)s)) = %(status)s)
       and (%(batch)s::uuid is null or exists (
            select from file_batch_item m where m.batch_id = %(batch)s and m.item_id = i.id))
     order by coalesce(i.file_id, i.id) desc limit %(limit)s)
    union all (
    select i.id from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where not %(down)s and i.base_id = %(base)s and not i.is_container and i.status <> 'deleting'
       and (%(below)s::uuid is null or coalesce(i.file_id, i.id) < %(below)s) and (%(above)s::uuid is null or coalesce(i.file_id, i.id) > %(above)s)
       and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)
       and (%(status)s::text is null or item_file_status(i.id, i.status, i.error_code, base_is_paused(%(base)s)) = %(status)s)
       and (%(batch)s::uuid is null or exists (
            select from file_batch_item m where m.batch_id = %(batch)s and m.item_id = i.id))
     order by coalesce(i.file_id, i.id) limit %(limit)s)) c
  join item_row r on r.id = c.id
 order by case when %(down)s then coalesce(r.file_id, r.id) end desc, coalesce(r.file_id, r.id);

-- name: find_document
-- A document of a base that principals see, by the id of the file that it was made from, or by its own.
select r.*, item_file_status(r.id, r.status, r.error_code, base_is_paused(%(base)s)) as file_status
  from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from join item_row r on r.id = i.id
 where i.base_id = %(base)s and (i.file_id = %(file)s or i.id = %(file)s and i.file_id is null)
   and not i.is_container and i.status <> 'deleting' and b.status <> 'deleting'
   and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)
 order by i.id limit 1;

-- name: file_ids_of_items
-- The files that items were made from, or that they are.
select i.id, coalesce(i.file_id, i.id) as file_id from item i where i.id = any (%(ids)s::uuid[]);
