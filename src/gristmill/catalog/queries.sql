-- name: insert_base
-- Creates a base.
insert into base (name, embedder, embedder_identity, dimensions, chunking, file_processor, on_restart, settings, acl,
                  org_id, index_kind, description, metadata, expire_days, expires_at)
values (%(name)s, %(embedder)s, %(embedder_identity)s, %(dimensions)s, %(chunking)s, %(file_processor)s, %(on_restart)s,
        %(settings)s, %(acl)s::text[], %(org)s, %(index_kind)s, %(description)s, %(metadata)s,
        %(expire_days)s, clock_now() + make_interval(days => %(expire_days)s))
on conflict do nothing
returning *;

-- name: lock_base
-- Locks a base exclusively until the transaction ends.
select base_lock(%(base)s);

-- name: lock_base_shared
-- Locks a base for workers, which share the lock, until the transaction ends.
select base_lock_shared(%(base)s);

-- name: lock_bases_shared
-- The same for several bases, in the order of their ids.
select base_lock_shared(u.id) from (select unnest(%(bases)s::uuid[]) as id order by 1) u;

-- name: find_base
-- A base that is not being deleted, for principals that see it or something in it.
select b.* from base b
 where b.id = %(id)s and b.status <> 'deleting' and (%(org)s::uuid is null or b.org_id = %(org)s)
   and (%(principals)s::text[] is null or b.acl && %(principals)s::text[]
        or exists (select from item i where i.base_id = b.id and i.acl && %(principals)s::text[]));

-- name: find_bases
-- Those of the bases that are not being deleted.
select * from base where id = any (%(ids)s::uuid[]) and status <> 'deleting';

-- name: find_sets_by_embedder
-- Sets of chunks whose vectors come from one embedder: all of this base, and the live ones of its organisation, the newest first.
select s.id from chunk_set s where s.base_id = %(base)s and s.embedder_identity = %(identity)s and s.state <> 'removing'
 union
(select b.chunk_set from base b
  where b.embedder_identity = %(identity)s and b.status <> 'deleting'
    and b.org_id = coalesce(%(org)s::uuid, (select m.org_id from base m where m.id = %(base)s))
  order by b.id desc limit %(limit)s);

-- name: has_hidden_items
-- Whether principals do not see all of a base: its access list, or that of an item, does not allow them.
select %(principals)s::text[] is not null and (
    not exists (select from base b where b.id = %(base)s and b.acl && %(principals)s::text[])
    or exists (select from item i where i.base_id = %(base)s and i.acl is not null and not i.acl && %(principals)s::text[]));

-- name: find_base_in_any_state
-- A base in any state.
select * from base where id = %(id)s;

-- name: find_base_by_name
-- The base of a name in any case, for principals that see it or something in it.
select b.* from base b
 where lower(b.name) = lower(%(name)s) and b.status <> 'deleting' and (%(org)s::uuid is null or b.org_id = %(org)s)
   and (%(principals)s::text[] is null or b.acl && %(principals)s::text[]
        or exists (select from item i where i.base_id = b.id and i.acl && %(principals)s::text[]));

-- name: list_bases
-- Bases of which principals see something, oldest first, after a cursor.
select b.* from base b
 where b.status <> 'deleting' and (%(after)s::uuid is null or b.id > %(after)s)
   and (%(org)s::uuid is null or b.org_id = %(org)s)
   and (%(principals)s::text[] is null or b.acl && %(principals)s::text[]
        or exists (select from item i where i.base_id = b.id and i.acl && %(principals)s::text[]))
 order by b.id limit %(limit)s;

-- name: patch_base
-- Changes the given fields; no row when the name is taken.
update base b
   set name = coalesce(%(name)s, b.name), chunking = coalesce(%(chunking)s::jsonb, b.chunking),
       file_processor = coalesce(%(file_processor)s, b.file_processor),
       on_restart = coalesce(%(on_restart)s, b.on_restart), acl = coalesce(%(acl)s::text[], b.acl),
       settings = b.settings || %(settings)s, updated_at = clock_now(),
       description = coalesce(%(description)s, b.description), metadata = coalesce(%(metadata)s::jsonb, b.metadata)
 where b.id = %(id)s and b.status <> 'deleting'
   and not exists (select from base o where lower(o.name) = lower(%(name)s) and o.org_id = b.org_id
                      and o.status <> 'deleting' and o.id <> b.id)
returning *;

-- name: set_base_expiry
-- Changes how long after its last use a base expires, from now on; null: never.
update base set expire_days = %(days)s::int, last_active_at = clock_now(), updated_at = clock_now(),
       expires_at = clock_now() + make_interval(days => %(days)s::int)
 where id = %(id)s and status <> 'deleting'
returning *;

-- name: touch_bases
-- Notes that bases are used, once a minute: they expire later. An expired one stays expired; a locked one is being changed anyway.
update base set last_active_at = clock_now(), expires_at = clock_now() + make_interval(days => expire_days)
 where id in (select b.id from base b
               where b.id = any (%(ids)s::uuid[]) and b.last_active_at < clock_now() - interval '1 minute'
                 and (b.expires_at is null or b.expires_at > clock_now()) for no key update skip locked);

-- name: find_expired_ids
-- Those of the bases that have expired.
select id from base where id = any (%(ids)s::uuid[]) and expires_at <= clock_now();

-- name: find_expired_bases
-- Bases that expired a while ago and that no legal hold covers, the oldest first.
select id from base where expires_at <= clock_now() - %(grace)s::interval and status <> 'deleting'
   and not exists (select from legal_hold h where h.base_id = base.id and h.lifted_at is null)
 order by expires_at limit %(limit)s;

-- name: set_base_status
-- ready <-> failed, with the reason.
update base set status = %(status)s, error_code = %(code)s, error_message = %(message)s, updated_at = clock_now()
 where id = %(id)s and status <> 'deleting'
returning *;

-- name: find_failed_bases
-- Bases that have failed with an error of this code.
select * from base where status = 'failed' and error_code = %(code)s order by id;

-- name: mark_base_busy
-- Notes that a base has work again, so that it is announced as ready once that is done.
update base set ingested = false, busy_since = clock_now() where id = %(base)s and (ingested or busy_since is null);

-- name: mark_base_deleting
-- ready | failed -> deleting: hidden from now on, its name free.
update base set status = 'deleting', updated_at = clock_now() where id = %(id)s and status <> 'deleting' returning id;

-- name: fill_index
-- Begins to fill another index of a base, or ends that.
update base set index_fill = %(fill)s where id = %(id)s;

-- name: switch_index
-- The index that was filled takes over.
update base set index_kind = index_fill, index_fill = null where id = %(id)s and index_fill is not null;

-- name: index_states
-- Which index and which chunks of each base answer, which index is being filled, and whether documents wait for other chunks.
select id, index_kind, index_fill, chunk_set, coalesce(switching_until > clock_now(), false) as is_switching
  from base where id = any (%(ids)s::uuid[]);

-- name: drop_base
-- Removes a base of which nothing else is left.
delete from base where id = %(id)s;

-- name: insert_items
-- Files items; failed ones with their error. Without a cause they have their parent's.
insert into item (base_id, parent_id, type, title, status, source, source_key, blob_hash, body, size_bytes,
                  listed_version, error_code, error_message, expanded_version, cause, acl, metadata, chunking, file_id,
                  fingerprint, titled_by_source)
select %(base)s, u.parent, u.type, u.title, u.status, u.source, u.source_key, u.blob_hash, u.body, u.size_bytes,
       u.listed_version, u.error_code, u.error_message, case when u.error_code is null then 0 else 1 end,
       coalesce(%(cause)s::uuid, (select p.cause from item p where p.id = u.parent)),
       case when u.acl <> 'null' then array(select jsonb_array_elements_text(u.acl)) end, u.metadata, u.chunking, u.file_id,
       u.fingerprint, u.titled_by_source
  from unnest(%(parents)s::uuid[], %(listed_versions)s::int[], %(types)s::text[], %(titles)s::text[], %(statuses)s::text[],
              %(sources)s::jsonb[], %(keys)s::text[], %(blobs)s::bytea[], %(bodies)s::text[], %(sizes)s::bigint[],
              %(codes)s::text[], %(messages)s::text[], %(acls)s::jsonb[], %(metadata)s::jsonb[],
              %(chunkings)s::jsonb[], %(files)s::uuid[], %(fingerprints)s::text[], %(titled_by_source)s::boolean[])
       with ordinality u(parent, listed_version, type, title, status, source, source_key, blob_hash, body, size_bytes,
                         error_code, error_message, acl, metadata, chunking, file_id, fingerprint, titled_by_source, n)
 order by u.n
returning id, base_id, parent_id, type, title, status, error_code, error_message, warnings, source, size_bytes,
          wanted_version, live_version, chunk_count, left_out, created_at, updated_at, acl, metadata, chunking, file_id;

-- name: find_existing
-- Which of these items exist under a parent already; `place` is their position in the question, from 1.
select u.n::int as place, i.id, i.status
  from unnest(%(types)s::text[], %(keys)s::text[]) with ordinality u(type, source_key, n)
  join item i on i.base_id = %(base)s and i.parent_id is not distinct from %(parent)s::uuid and i.type = u.type
             and md5(i.source_key) = md5(u.source_key) and i.source_key = u.source_key and i.status <> 'deleting'
 order by u.n, i.id;

-- name: find_existing_children
-- Which of these items exist under their parents already; `place` is their position in the question, from 1.
select u.n::int as place, i.id, i.status
  from unnest(%(parents)s::uuid[], %(types)s::text[], %(keys)s::text[]) with ordinality u(parent_id, type, source_key, n)
  join item i on i.base_id = %(base)s and i.parent_id = u.parent_id and i.type = u.type
             and md5(i.source_key) = md5(u.source_key) and i.source_key = u.source_key and i.status <> 'deleting'
 order by u.n, i.id;

-- name: find_item
-- An item that principals see, unless it or its base is being deleted.
select i.* from item_row i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
 where i.id = %(id)s and i.status <> 'deleting' and b.status <> 'deleting' and (%(org)s::uuid is null or b.org_id = %(org)s)
   and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl);

-- name: read_item
-- As find_item; with a key, only while that is as it was. For `Reads`, whose plans don't depend on the parameters.
select i.* from item_row i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
 where i.id = %(id)s and i.status <> 'deleting' and b.status <> 'deleting' and (%(org)s::uuid is null or b.org_id = %(org)s)
   and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)
   and (%(key)s::uuid is null or exists (
        select from api_key k where k.id = %(key)s and k.updated_at = %(key_as_of)s
           and (k.expires_at is null or k.expires_at > clock_now())));

-- name: read_roots
-- The roots of a base, as list_items without filters; with a key, only while that is as it was.
-- For `Reads`, whose plans don't depend on the parameters: every condition uses an index or is cheap.
select i.* from item_row i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
 where i.base_id = %(base)s and i.parent_id is null and i.id > %(after)s and i.status <> 'deleting'
   and b.status <> 'deleting' and (%(org)s::uuid is null or b.org_id = %(org)s)
   and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)
   and (%(key)s::uuid is null or exists (
        select from api_key k where k.id = %(key)s and k.updated_at = %(key_as_of)s
           and (k.expires_at is null or k.expires_at > clock_now())))
 order by i.id limit %(limit)s;

-- name: find_items
-- These items in any state, of one organisation or of any.
select id, base_id, parent_id, type, title, status, error_code, error_message, warnings, source, size_bytes,
       wanted_version, live_version, chunk_count, left_out, created_at, updated_at, acl, metadata, document,
       (select p.percent from progress p where p.item_id = item.id and p.version = item.wanted_version) as percent
  from item where id = any (%(ids)s::uuid[])
   and (%(org)s::uuid is null or exists (select from base b where b.id = item.base_id and b.org_id = %(org)s))
 order by id;

-- name: list_items
-- Items of a base that principals see, after a cursor: all, the roots, or the children of one.
select i.* from item_row i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
 where i.base_id = %(base)s and (%(deleting)s or i.status <> 'deleting')
   and b.status <> 'deleting' and (%(org)s::uuid is null or b.org_id = %(org)s)
   and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)
   and (%(everywhere)s or i.parent_id is not distinct from %(parent)s)
   and (%(status)s::text is null or i.status = %(status)s)
   and (%(type)s::text is null or i.type = %(type)s)
   and (%(under)s::uuid is null or i.id in (select s.id from item_subtree(array[%(under)s::uuid]) s where s.depth > 0))
   and (%(title)s::text is null or strpos(lower(i.title), lower(%(title)s)) > 0)
   and (%(tags)s::jsonb is null or i.metadata @> %(tags)s::jsonb)
   and (%(after)s::uuid is null or i.id > %(after)s)
 order by i.id limit %(limit)s;

-- name: list_items_sorted
-- As list_items, in the order of a column, after a cursor: the value and the id of the last row of the page before.
with keyed as (
    select i.id, i.type as item_type,
           case %(sort)s::text when 'title' then lower(i.title) when 'type' then i.type when 'status' then i.status else '' end
               collate "C" as text,
           case when %(descending)s then -1 else 1 end * coalesce(case %(sort)s::text
               when 'size' then i.size_bytes::numeric when 'chunks' then i.chunk_count
               when 'updated' then extract(epoch from i.updated_at) else 0 end,
               case when %(descending)s then -1e30 else 1e30 end) as number
      from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where i.base_id = %(base)s and (%(deleting)s or i.status <> 'deleting')
       and b.status <> 'deleting' and (%(org)s::uuid is null or b.org_id = %(org)s)
       and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)
       and (%(everywhere)s or i.parent_id is not distinct from %(parent)s)
       and (%(status)s::text is null or i.status = %(status)s)
       and (%(type)s::text is null or i.type = %(type)s)
       and (%(under)s::uuid is null or i.id in (select s.id from item_subtree(array[%(under)s::uuid]) s where s.depth > 0))
       and (%(title)s::text is null or strpos(lower(i.title), lower(%(title)s)) > 0)
       and (%(tags)s::jsonb is null or i.filterable @> %(tags)s::jsonb)),
page as (
    select k.id, k.text, k.number from keyed k
     where %(after_id)s::uuid is null or k.number > %(after_number)s::numeric
        or (k.number = %(after_number)s::numeric
            and (case when %(descending)s then k.text < %(after_text)s::text collate "C"
                      else k.text > %(after_text)s::text collate "C" end
                 or (k.text = %(after_text)s::text collate "C" and k.id > %(after_id)s::uuid)))
     order by k.number, case when not %(descending)s then k.text end, case when %(descending)s then k.text end desc, k.id
     limit %(limit)s)
select i.*, p.text as sort_text, p.number as sort_number from page p join item_row i on i.id = p.id
 order by p.number, case when not %(descending)s then p.text end, case when %(descending)s then p.text end desc, p.id;

-- name: set_acl
-- Gives an item its own access list, or with null the inherited one.
select item_set_acl(%(id)s, %(acl)s::text[]);

-- name: set_metadata
-- Replaces the metadata of an item, or all of it but the tags.
update item set metadata = case when %(keep_tags)s and metadata ? 'tags' then jsonb_build_object('tags', metadata -> 'tags')
                                else '{}' end || %(metadata)s, updated_at = clock_now() where id = %(id)s and status <> 'deleting' returning id;

-- name: rename_records
-- Gives records below a container other source keys.
update item i set source_key = u.new_key, updated_at = clock_now()
  from unnest(%(old_keys)s::text[], %(new_keys)s::text[]) u(old_key, new_key)
 where i.parent_id = %(container)s and i.type = 'record' and i.status <> 'deleting' and i.source_key = u.old_key;

-- name: changes_watermark
-- The start of the oldest transaction that writes items, or now minus the time a statement may need to take its lock.
select least(clock_now() - interval '500 ms', (
    select min(a.xact_start) from pg_locks l join pg_stat_activity a on a.pid = l.pid
     where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.relation = 'item'::regclass
       and l.database = (select oid from pg_database where datname = current_database())));

-- name: item_changes
-- Items that changed since a watermark.
select c.id, c.base_id, max(c.updated_at) as updated_at from (
    select i.id, i.base_id, i.updated_at from item i
     where i.updated_at >= %(since)s and (%(bases)s::uuid[] is null or i.base_id = any (%(bases)s))
    union all
    select i.id, i.base_id, p.updated_at from progress p join item i on i.id = p.item_id
     where p.updated_at >= %(since)s and (%(bases)s::uuid[] is null or i.base_id = any (%(bases)s))) c
 group by c.id, c.base_id order by 3 desc limit %(limit)s;

-- name: note_text
-- The text of a note or record.
select body from item where id = %(id)s;

-- name: item_blob_hash
-- The hash of an uploaded file's bytes.
select blob_hash from item where id = %(id)s;

-- name: record_progress
-- Records how far documents are, and what they wait for. Only while the job's lease is held; a percentage never falls.
insert into progress (item_id, version, percent, note, note_code, noted_at, next_at)
select u.id, u.version, u.percent, u.note, u.note_code, case when u.note is not null then clock_now() end,
       clock_now() + make_interval(secs => u.next_in)
  from json_to_recordset(%(documents)s::json)
       u(id uuid, version int, percent real, note text, note_code text, next_in double precision, job uuid, lease uuid)
  join job j on j.id = u.job and j.lease = u.lease
on conflict (item_id) do update
   set percent = case when progress.version = excluded.version then greatest(progress.percent, excluded.percent)
                      else excluded.percent end,
       noted_at = case when progress.version = excluded.version and excluded.note is not null
                       then coalesce(progress.noted_at, excluded.noted_at) else excluded.noted_at end,
       version = excluded.version, note = excluded.note, note_code = excluded.note_code, next_at = excluded.next_at,
       updated_at = clock_now()
 where progress.version <= excluded.version;

-- name: drop_stale_progress
-- Deletes the progress of work that ended a while ago.
delete from progress p
 where p.updated_at < clock_now() - interval '5 minutes'
   and not exists (select from item i where i.id = p.item_id and i.wanted_version = p.version and i.is_active);

-- name: lock_live_version
-- An item whose live version this is, locked until the transaction ends.
select i.id from item i
 where i.id = %(item)s and i.live_version = %(version)s and i.status <> 'deleting' for no key update of i;

-- name: add_chunk_count
-- Counts the chunks of a new image description.
update item set chunk_count = chunk_count + %(chunks)s, updated_at = clock_now() where id = %(item)s;

-- name: removable_items
-- Childless items of subtrees that are being deleted.
select item_removable(%(roots)s::uuid[], %(limit)s::int);

-- name: childless_items
-- Childless items of a base in any state.
select i.id from item i
 where i.base_id = %(base)s and not exists (select from item c where c.parent_id = i.id) limit %(limit)s;

-- name: lock_items
-- Locks those of the items that still exist.
select id from item where id = any (%(ids)s::uuid[]) order by id for update;

-- name: delete_items
-- Deletes items and, by foreign key, their versions; returns what they used.
with hit as materialized (
    select id, blob_hash from item where id = any (%(ids)s::uuid[])),
used as materialized (
    select distinct v.content_hash as hash from item_version v where v.item_id = any (%(ids)s::uuid[])),
fetched as materialized (
    select distinct v.original as hash from item_version v where v.item_id = any (%(ids)s::uuid[]) and v.original is not null),
deleted as (
    delete from item i using hit where i.id = hit.id returning i.id)
select (select count(*)::int from deleted) as items,
       array(select hash from used) as contents,
       array(select blob_hash from hit where blob_hash is not null union select hash from fetched) as blobs;

-- name: set_suggested_embedder
-- Notes which embedder was suggested for a base.
update base set suggested_embedder = %(embedder)s where id = %(base)s;
