-- name: insert_base
-- Creates a base and, by trigger, its partition.
insert into base (name, embedder, embedder_identity, dimensions, chunking, file_processor, on_restart, settings, acl,
                  org_id)
values (%(name)s, %(embedder)s, %(embedder_identity)s, %(dimensions)s, %(chunking)s, %(file_processor)s, %(on_restart)s,
        %(settings)s, %(acl)s::text[], %(org)s)
on conflict do nothing
returning *;

-- name: take_turn
-- Waits until nobody else changes the base, and keeps others out until the transaction ends.
select base_lock(%(base)s);

-- name: share_turn
-- Waits until nobody changes the base; workers share this turn with each other.
select base_lock_shared(%(base)s);

-- name: share_turns
-- The same, of several bases, in the order of their ids.
select base_lock_shared(u.id) from (select unnest(%(bases)s::uuid[]) as id order by 1) u;

-- name: base
-- A base that is not being deleted, for eyes that see it or something in it.
select b.* from base b
 where b.id = %(id)s and b.status <> 'deleting' and (%(org)s::uuid is null or b.org_id = %(org)s)
   and (%(eyes)s::text[] is null or b.acl && %(eyes)s::text[]
        or exists (select from item i where i.base_id = b.id and i.acl && %(eyes)s::text[]));

-- name: bases_of
-- Those of the bases that are not being deleted.
select * from base where id = any (%(ids)s::uuid[]) and status <> 'deleting';

-- name: bases_alike
-- Bases of one organisation whose vectors one embedder made, the newest first.
select b.id from base b
 where b.embedder_identity = %(identity)s and b.status <> 'deleting'
   and b.org_id = (select m.org_id from base m where m.id = %(base)s)
 order by b.id desc limit %(limit)s;

-- name: hides_something
-- Whether eyes don't see the whole of a base: its own list, or that of an item, leaves them out.
select %(eyes)s::text[] is not null and (
    not exists (select from base b where b.id = %(base)s and b.acl && %(eyes)s::text[])
    or exists (select from item i where i.base_id = %(base)s and i.acl is not null and not i.acl && %(eyes)s::text[]));

-- name: any_base
-- A base, whatever its state.
select * from base where id = %(id)s;

-- name: base_by_name
-- The base of a name, whatever its case, for eyes that see it or something in it.
select b.* from base b
 where lower(b.name) = lower(%(name)s) and b.status <> 'deleting' and (%(org)s::uuid is null or b.org_id = %(org)s)
   and (%(eyes)s::text[] is null or b.acl && %(eyes)s::text[]
        or exists (select from item i where i.base_id = b.id and i.acl && %(eyes)s::text[]));

-- name: bases
-- All bases that eyes see, or something in them, oldest first, after a cursor.
select b.* from base b
 where b.status <> 'deleting' and (%(after)s::uuid is null or b.id > %(after)s)
   and (%(org)s::uuid is null or b.org_id = %(org)s)
   and (%(eyes)s::text[] is null or b.acl && %(eyes)s::text[]
        or exists (select from item i where i.base_id = b.id and i.acl && %(eyes)s::text[]))
 order by b.id limit %(limit)s;

-- name: patch_base
-- Changes what is given; no row when the name is taken.
update base b
   set name = coalesce(%(name)s, b.name), chunking = coalesce(%(chunking)s::jsonb, b.chunking),
       file_processor = coalesce(%(file_processor)s, b.file_processor),
       on_restart = coalesce(%(on_restart)s, b.on_restart), acl = coalesce(%(acl)s::text[], b.acl),
       settings = b.settings || %(settings)s, updated_at = clock_now()
 where b.id = %(id)s and b.status <> 'deleting'
   and not exists (select from base o where lower(o.name) = lower(%(name)s) and o.org_id = b.org_id
                      and o.status <> 'deleting' and o.id <> b.id)
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

-- name: base_figures
-- Items of bases that eyes see, by status and whether they are leaves, with their chunks and how far they are in sum.
select i.base_id, i.status, not i.is_container as is_leaf, count(*)::int as count,
       coalesce(sum(i.chunk_count), 0)::bigint as chunks, max(i.updated_at) as changed_at,
       sum(case when i.status in ('completed', 'failed') then 100 else least(coalesce(p.percent, 0), 99) end)::float as percent
  from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
  left join progress p on p.item_id = i.id and p.version = i.wanted_version and i.status not in ('completed', 'failed')
 where i.base_id = any (%(bases)s) and i.status <> 'deleting' and item_is_visible(%(eyes)s::text[], i.acl_from, o.acl, b.acl)
 group by 1, 2, 3;

-- name: insert_items
-- Files items; what already failed is filed with its error. Without a cause, they have their parent's.
insert into item (base_id, parent_id, type, title, status, source, source_key, blob_hash, body, size_bytes,
                  listed_version, error_code, error_message, expanded_version, cause, acl, metadata)
select %(base)s, %(parent)s::uuid, u.type, u.title, u.status, u.source, u.source_key, u.blob_hash, u.body, u.size_bytes,
       %(listed_version)s, u.error_code, u.error_message, case when u.error_code is null then 0 else 1 end,
       coalesce(%(cause)s::uuid, (select p.cause from item p where p.id = %(parent)s::uuid)),
       case when u.acl <> 'null' then array(select jsonb_array_elements_text(u.acl)) end, u.metadata
  from unnest(%(types)s::text[], %(titles)s::text[], %(statuses)s::text[], %(sources)s::jsonb[], %(keys)s::text[],
              %(blobs)s::bytea[], %(bodies)s::text[], %(sizes)s::bigint[], %(codes)s::text[], %(messages)s::text[],
              %(acls)s::jsonb[], %(metadata)s::jsonb[])
       with ordinality u(type, title, status, source, source_key, blob_hash, body, size_bytes, error_code, error_message,
                         acl, metadata, n)
 order by u.n
returning id, base_id, parent_id, type, title, status, error_code, error_message, warnings, source, size_bytes,
          wanted_version, live_version, chunk_count, left_out, created_at, updated_at, acl, metadata;

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
       status = case when is_container then 'preparing' else 'processing' end,
       cause = %(cause)s
 where id = %(id)s and status <> 'deleting'
returning id, base_id, parent_id, type, title, status, error_code, error_message, warnings, source, size_bytes,
          wanted_version, live_version, chunk_count, left_out, created_at, updated_at, acl, metadata;

-- name: relist
-- Children that a container's new version lists again: wanted anew, each once.
update item i
   set listed_version = %(version)s, wanted_version = i.wanted_version + 1, size_bytes = u.size_bytes,
       expanded_version = case when u.error_code is null then i.expanded_version else i.wanted_version + 1 end,
       error_code = u.error_code, error_message = u.error_message, updated_at = clock_now(),
       cause = (select p.cause from item p where p.id = i.parent_id),
       status = case when u.error_code is not null then 'failed'
                     when i.is_container then 'preparing' else 'processing' end
  from unnest(%(ids)s::uuid[], %(sizes)s::bigint[], %(codes)s::text[], %(messages)s::text[])
       u(id, size_bytes, error_code, error_message)
 where i.id = u.id and i.status <> 'deleting' and i.listed_version < %(version)s
returning i.id, i.base_id, i.parent_id, i.type, i.title, i.status, i.error_code, i.error_message, i.warnings, i.source,
          i.size_bytes, i.wanted_version, i.live_version, i.chunk_count, i.left_out, i.created_at, i.updated_at, i.acl, i.metadata;

-- name: has_children
-- Whether anything is filed below an item.
select exists (select from item where parent_id = %(id)s);

-- name: stale_children
-- Children that an earlier version of a container listed and this one does not.
select id from item
 where parent_id = %(parent)s and listed_version > 0 and listed_version < %(version)s and status <> 'deleting';

-- name: item
-- An item that eyes see, unless it or its base is being deleted.
select i.* from item_row i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
 where i.id = %(id)s and i.status <> 'deleting' and b.status <> 'deleting' and (%(org)s::uuid is null or b.org_id = %(org)s)
   and item_is_visible(%(eyes)s::text[], i.acl_from, o.acl, b.acl);

-- name: items_of
-- These items, whatever their state; of one organisation, or of any.
select id, base_id, parent_id, type, title, status, error_code, error_message, warnings, source, size_bytes,
       wanted_version, live_version, chunk_count, left_out, created_at, updated_at, acl, metadata,
       (select p.percent from progress p where p.item_id = item.id and p.version = item.wanted_version) as percent
  from item where id = any (%(ids)s::uuid[])
   and (%(org)s::uuid is null or exists (select from base b where b.id = item.base_id and b.org_id = %(org)s))
 order by id;

-- name: items
-- Items of a base that eyes see, unless it is being deleted, after a cursor: all of them, or the roots, or the children of one.
select i.* from item_row i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
 where i.base_id = %(base)s and (%(deleting)s or i.status <> 'deleting')
   and b.status <> 'deleting' and (%(org)s::uuid is null or b.org_id = %(org)s)
   and item_is_visible(%(eyes)s::text[], i.acl_from, o.acl, b.acl)
   and (%(everywhere)s or i.parent_id is not distinct from %(parent)s)
   and (%(status)s::text is null or i.status = %(status)s)
   and (%(type)s::text is null or i.type = %(type)s)
   and (%(under)s::uuid is null or i.id in (select s.id from item_subtree(array[%(under)s::uuid]) s where s.depth > 0))
   and (%(title)s::text is null or strpos(lower(i.title), lower(%(title)s)) > 0)
   and (%(after)s::uuid is null or i.id > %(after)s)
 order by i.id limit %(limit)s;

-- name: tree_window
-- A window of the children of one item, of the roots, or, flat, of all that fits: each branch by the index that is its own.
with chosen as (
    select i.id from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where not %(flat)s and %(parent)s::uuid is null and i.base_id = %(base)s and i.parent_id is null
       and i.status <> 'deleting' and item_is_visible(%(eyes)s::text[], i.acl_from, o.acl, b.acl)
    union all
    select i.id from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where not %(flat)s and i.base_id = %(base)s and i.parent_id = %(parent)s::uuid
       and i.status <> 'deleting' and item_is_visible(%(eyes)s::text[], i.acl_from, o.acl, b.acl)
    union all
    select i.id from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where %(flat)s and i.base_id = %(base)s and i.status <> 'deleting'
       and (%(statuses)s::text[] is null or i.status = any (%(statuses)s::text[]))
       and (%(ids)s::uuid[] is null or i.id = any (%(ids)s::uuid[]))
       and (%(title)s::text is null or strpos(lower(i.title), lower(%(title)s)) > 0)
       and not (%(leaves)s and i.is_container)
       and item_is_visible(%(eyes)s::text[], i.acl_from, o.acl, b.acl)
    order by 1 offset %(offset)s limit %(limit)s)
select i.*,
       (select count(*)::int from item c left join item o on o.id = c.acl_from
         where c.parent_id = i.id and c.status <> 'deleting'
           and item_is_visible(%(eyes)s::text[], c.acl_from, o.acl, b.acl)) as child_count,
       case when i.parent_id is null then '{}' else array(
           with recursive up(title, parent_id, acl_from, height) as (
               select a.title, a.parent_id, a.acl_from, 1 from item a where a.id = i.parent_id
               union all
               select a.title, a.parent_id, a.acl_from, u.height + 1 from up u join item a on a.id = u.parent_id)
           select u.title from up u left join item o on o.id = u.acl_from
            where item_is_visible(%(eyes)s::text[], u.acl_from, o.acl, b.acl) order by u.height desc) end as path
  from chosen join item_row i on i.id = chosen.id join base b on b.id = i.base_id
 order by i.id;

-- name: tree_total
-- How many items such a window can be moved over.
select (
    select count(*) from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where not %(flat)s and %(parent)s::uuid is null and i.base_id = %(base)s and i.parent_id is null
       and i.status <> 'deleting' and item_is_visible(%(eyes)s::text[], i.acl_from, o.acl, b.acl)) + (
    select count(*) from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where not %(flat)s and i.base_id = %(base)s and i.parent_id = %(parent)s::uuid
       and i.status <> 'deleting' and item_is_visible(%(eyes)s::text[], i.acl_from, o.acl, b.acl)) + (
    select count(*) from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where %(flat)s and i.base_id = %(base)s and i.status <> 'deleting'
       and (%(statuses)s::text[] is null or i.status = any (%(statuses)s::text[]))
       and (%(ids)s::uuid[] is null or i.id = any (%(ids)s::uuid[]))
       and (%(title)s::text is null or strpos(lower(i.title), lower(%(title)s)) > 0)
       and not (%(leaves)s and i.is_container)
       and item_is_visible(%(eyes)s::text[], i.acl_from, o.acl, b.acl));

-- name: set_acl
-- Gives an item a list of its own, or with null the one above it.
select item_set_acl(%(id)s, %(acl)s::text[]);

-- name: set_metadata
-- What people say of an item.
update item set metadata = %(metadata)s, updated_at = clock_now() where id = %(id)s and status <> 'deleting' returning id;

-- name: top_source
-- The source of the container that somebody added, for one that its listing brought up at any depth.
with recursive up(parent_id, source, listed_version) as (
    select parent_id, source, listed_version from item where id = %(id)s
    union all
    select p.parent_id, p.source, p.listed_version from up u join item p on p.id = u.parent_id where u.listed_version > 0)
select source from up where listed_version = 0;

-- name: changes_mark
-- The start of the oldest transaction that is writing items, or now less what a statement may take to get that far.
select least(clock_now() - interval '500 ms', (
    select min(a.xact_start) from pg_locks l join pg_stat_activity a on a.pid = l.pid
     where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.relation = 'item'::regclass
       and l.database = (select oid from pg_database where datname = current_database())));

-- name: changes
-- Items that changed since a mark.
select c.id, c.base_id, max(c.updated_at) as updated_at from (
    select i.id, i.base_id, i.updated_at from item i
     where i.updated_at >= %(since)s and (%(bases)s::uuid[] is null or i.base_id = any (%(bases)s))
    union all
    select i.id, i.base_id, p.updated_at from progress p join item i on i.id = p.item_id
     where p.updated_at >= %(since)s and (%(bases)s::uuid[] is null or i.base_id = any (%(bases)s))) c
 group by c.id, c.base_id order by 3 desc limit %(limit)s;

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
           i.id = r.id and (not i.is_container or i.expanded_version < i.wanted_version)
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
select item_derive_statuses_above(%(ids)s::uuid[]);

-- name: want_anew
-- completed | failed -> active, with a new version; what answers goes on answering.
update item
   set wanted_version = wanted_version + 1, error_code = null, error_message = null, updated_at = clock_now(),
       status = case when is_container then 'preparing' else 'processing' end,
       cause = %(cause)s
 where id = any (%(ids)s::uuid[]) and status in ('completed', 'failed')
returning id, base_id, parent_id, type, title, status, error_code, error_message, warnings, source, size_bytes,
          wanted_version, live_version, chunk_count, left_out, created_at, updated_at, acl, metadata;

-- name: added_below
-- What people put below a container: no listing will bring it up.
select i.id from item_subtree(array[%(root)s::uuid]) s join item i on i.id = s.id
 where s.depth > 0 and i.listed_version = 0 and i.status <> 'deleting';

-- name: deleting_below
-- Whether something at or below an item is being deleted.
select exists (select from item_subtree(array[%(root)s::uuid]) s join item i on i.id = s.id where i.status = 'deleting');

-- name: body
-- The text of a note or record.
select body from item where id = %(id)s;

-- name: blob_of
-- The name of an uploaded file's bytes in the store.
select b.name from item i join blob b on b.hash = i.blob_hash where i.id = %(id)s;

-- name: blobs_of
-- The names of uploaded files' bytes in the store, by item.
select i.id, b.name from item i join blob b on b.hash = i.blob_hash where i.id = any (%(ids)s::uuid[]);

-- name: blob_hash_of
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
-- All children of a container's version are filed, but for what its source has and the listing left out.
update item set expanded_version = %(version)s, left_out = %(left_out)s, updated_at = clock_now()
 where id = %(id)s and wanted_version = %(version)s and status <> 'deleting'
returning id;

-- name: settle
-- Derives a container, and those above it.
select item_derive_status(%(id)s);

-- name: abandon
-- An item gives up the version that is being made: whoever still makes it changes nothing any more.
update item set status = 'failed', wanted_version = wanted_version + 1, expanded_version = wanted_version + 1,
       error_code = %(code)s, error_message = %(message)s, updated_at = clock_now()
 where id = %(id)s and status not in ('completed', 'failed', 'deleting')
returning id;

-- name: begin_reading
-- Documents whose version is still wanted are being read from now on.
-- What is needed for that, and what there is of this version and of the one that answers.
with locked as (
    select i.id from item i join unnest(%(ids)s::uuid[], %(versions)s::int[]) u(id, version)
      on i.id = u.id and i.wanted_version = u.version
     where i.status not in ('deleting', 'completed') order by i.id for no key update of i),
moved as (
    update item i set status = 'reading', error_code = null, error_message = null, updated_at = clock_now()
      from locked where i.id = locked.id returning i.*)
select i.id, i.base_id, i.parent_id, i.type, i.title, i.status, i.error_code, i.error_message, i.warnings, i.source,
       i.size_bytes, i.wanted_version, i.live_version, i.chunk_count, i.left_out, i.created_at, i.updated_at, i.acl, i.metadata, i.body,
       (select b.name from blob b where b.hash = i.blob_hash) as blob_name, live.content_hash as live_content, live.recipe as live_recipe,
       begun.content_hash as begun_content, begun.recipe as begun_recipe, i.attachments_content,
       live.validators as live_validators,
       exists (select from item c where c.parent_id = i.id) as holds
  from moved i
  left join item_version live on live.item_id = i.id and live.version = i.live_version
  left join item_version begun on begun.item_id = i.id and begun.version = i.wanted_version;

-- name: still_wanted
-- Those of the documents whose version is still wanted, the caller's until the transaction ends.
select i.id from item i join unnest(%(ids)s::uuid[], %(versions)s::int[]) u(id, version)
    on i.id = u.id and i.wanted_version = u.version
 where i.status not in ('deleting', 'completed') order by i.id for no key update of i;

-- name: keep_contents
-- Contents that are there from now on, whoever made them, and how long those are that are whole.
-- Their rows are locked, so that nobody collects them meanwhile.
insert into content (hash) select u.hash from unnest(%(hashes)s::bytea[]) u(hash) order by 1
on conflict (hash) do update set hash = excluded.hash
returning hash, characters;

-- name: keep_parts
-- Parts of contents, unless they are there.
insert into content_part (content_hash, start, text, page)
select u.hash, u.start, u.text, u.page
  from unnest(%(hashes)s::bytea[], %(starts)s::bigint[], %(texts)s::text[], %(pages)s::int[]) u(hash, start, text, page)
on conflict do nothing;

-- name: complete_contents
-- All parts of these contents are there.
update content c set characters = u.characters, warnings = u.warnings
  from json_to_recordset(%(contents)s::json) u(hash text, characters bigint, warnings text[])
 where c.hash = decode(u.hash, 'hex') and c.characters is null;

-- name: whole_content
-- What is told about a content all of whose parts are kept.
select warnings from content where hash = %(hash)s and characters is not null;

-- name: parts_of
-- Parts of a content, after a place in it.
select start, text, page from content_part where content_hash = %(hash)s and start >= %(after)s order by start limit 16;

-- name: resume_point
-- The last page that something is kept of, and where it begins, if all before it is there.
with last as (
    select p.page, min(p.start) as start from content_part p
     where p.content_hash = %(hash)s and p.page is not null group by p.page order by p.page desc limit 1)
select l.page, l.start from last l
 where l.page > 1 and l.start = (
    select sum(length(p.text)) from content_part p where p.content_hash = %(hash)s and p.start < l.start);

-- name: keep_versions
-- Ties versions of items to their contents, and to what cuts and embeds them.
insert into item_version (item_id, version, content_hash, recipe, original, validators)
select u.item, u.version, u.hash, u.recipe, u.original, u.validators::jsonb
  from unnest(%(items)s::uuid[], %(versions)s::int[], %(hashes)s::bytea[], %(recipes)s::text[], %(originals)s::bytea[],
              %(validators)s::text[]) u(item, version, hash, recipe, original, validators)
on conflict (item_id, version) do update
   set content_hash = excluded.content_hash, recipe = excluded.recipe, original = excluded.original,
       validators = excluded.validators;

-- name: publish_items
-- The versions that are wanted become the ones that answer.
with done as (
    select * from json_to_recordset(%(documents)s::json)
        as u(id uuid, version int, chunks int, warnings text[], size_bytes bigint, timeline jsonb, analysed boolean)),
told as (
    update item_version v set timeline = d.timeline, analysed = d.analysed from done d where v.item_id = d.id and v.version = d.version)
update item i
   set status = 'completed', live_version = d.version, chunk_count = d.chunks, warnings = d.warnings,
       size_bytes = coalesce(d.size_bytes, i.size_bytes), error_code = null, error_message = null,
       updated_at = clock_now()
  from done d
 where i.id = d.id and i.wanted_version = d.version and i.status <> 'deleting'
returning i.id;

-- name: finish_unchanged
-- Nothing changed since the version that answers: it goes on answering, and is what was wanted.
update item i
   set status = 'completed', error_code = null, error_message = null, updated_at = clock_now()
  from unnest(%(ids)s::uuid[], %(versions)s::int[]) u(id, version)
 where i.id = u.id and i.wanted_version = u.version and i.status <> 'deleting'
returning i.id;

-- name: forget_versions
-- Every version but the one that answers is forgotten; whose, and what they were made of.
delete from item_version v using item i
 where v.item_id = any (%(ids)s::uuid[]) and i.id = v.item_id and v.version is distinct from i.live_version
returning v.item_id, v.content_hash, v.original;

-- name: live_parts
-- The canonical content of the version that answers, in parts, after a place in it.
select p.start, p.text, p.page from item i
  join item_version v on v.item_id = i.id and v.version = i.live_version
  join content_part p on p.content_hash = v.content_hash
 where i.id = %(id)s and p.start >= %(after)s
 order by p.start limit %(limit)s;

-- name: live_original
-- The name of a page's bytes in the store, as they were fetched for the version that answers.
select b.name from item i
  join item_version v on v.item_id = i.id and v.version = i.live_version
  join blob b on b.hash = v.original
 where i.id = %(id)s;

-- name: timeline
-- What the making of the version that answers took.
select v.timeline from item i
  join item_version v on v.item_id = i.id and v.version = i.live_version
 where i.id = %(id)s;

-- name: show_progress
-- How far documents are, and that those which are past reading are being embedded. Only while the job's lease is held.
with told as (
    select u.* from json_to_recordset(%(documents)s::json)
        as u(id uuid, version int, percent real, note text, embedding boolean, job uuid, lease uuid)
      join job j on j.id = u.job and j.lease = u.lease),
moved as (
    update item i set status = 'embedding', updated_at = clock_now()
      from (select i.id from item i join told t on t.id = i.id and t.embedding and i.wanted_version = t.version
             where i.status = 'reading' for no key update of i skip locked) l
     where i.id = l.id)
insert into progress (item_id, version, percent, note)
select t.id, t.version, t.percent, t.note from told t
on conflict (item_id) do update
   set percent = case when progress.version = excluded.version then greatest(progress.percent, excluded.percent)
                      else excluded.percent end,
       version = excluded.version, note = excluded.note, updated_at = clock_now()
 where progress.version <= excluded.version;

-- name: drop_progress
-- Progress that nobody asks for any more: of what ended a while ago, or is gone.
delete from progress p
 where p.updated_at < clock_now() - interval '5 minutes'
   and not exists (select from item i where i.id = p.item_id and i.wanted_version = p.version
                      and i.status in ('processing', 'reading', 'embedding'));

-- name: keep_embedded
-- Documents that were found inside contents.
insert into attachment (content_hash, fingerprint, number, name, blob_hash, size)
select u.content, u.fingerprint, u.number, u.name, u.blob, u.size
  from unnest(%(contents)s::bytea[], %(marks)s::bytea[], %(numbers)s::int[], %(names)s::text[], %(blobs)s::bytea[],
              %(sizes)s::bigint[]) u(content, fingerprint, number, name, blob, size)
on conflict do nothing;

-- name: embedded_in
-- Documents that were found inside a content, in order.
select number, name, blob_hash as blob, size from attachment where content_hash = %(content)s order by number, fingerprint;

-- name: children_of
-- The embedded documents that are filed below a document.
select id, source_key, blob_hash as blob, status, listed_version from item
 where parent_id = %(parent)s and listed_version > 0 and status <> 'deleting' order by id;

-- name: embedded_elsewhere
-- How many embedded documents the outermost document above this one holds at any depth, beside this one's own children.
with recursive up(id, parent_id, height) as (
    select i.id, i.parent_id, 0 from item i where i.id = %(id)s
    union all
    select p.id, p.parent_id, u.height + 1 from up u join item p on p.id = u.parent_id
     where not p.is_container)
select count(*)::int from item_subtree(array[(select u.id from up u order by u.height desc limit 1)]) s
  join item i on i.id = s.id
 where s.depth > 0 and i.status <> 'deleting' and i.parent_id <> %(id)s;

-- name: filed_for
-- Whether a version's embedded documents are filed, as this content has them.
select id from item where id = %(id)s and attachments_version = %(version)s and attachments_content = %(content)s;

-- name: refile
-- Embedded documents that their document's new version still has: given its bytes, and wanted anew.
update item i
   set listed_version = %(version)s, wanted_version = i.wanted_version + 1, blob_hash = u.blob, size_bytes = u.size,
       error_code = null, error_message = null, updated_at = clock_now(), status = 'processing',
       cause = (select p.cause from item p where p.id = i.parent_id)
  from unnest(%(ids)s::uuid[], %(blobs)s::bytea[], %(sizes)s::bigint[]) u(id, blob, size)
 where i.id = u.id and i.status <> 'deleting'
returning i.id, i.base_id, i.parent_id, i.type, i.title, i.status, i.error_code, i.error_message, i.warnings, i.source,
          i.size_bytes, i.wanted_version, i.live_version, i.chunk_count, i.left_out, i.created_at, i.updated_at, i.acl, i.metadata;

-- name: stay_filed
-- Embedded documents that their document's new version still has, and that stay as they are.
update item set listed_version = %(version)s where id = any (%(ids)s::uuid[]);

-- name: set_filed
-- The embedded documents of a version are filed, as a content has them.
update item set attachments_version = %(version)s, attachments_content = %(content)s where id = %(id)s;

-- name: keep_assets
-- Images and tables that were found inside contents.
insert into content_asset (content_hash, hash, number, kind, media_type, size, page, start, "end", caption, inline, blob_hash)
select decode(u.content, 'hex'), decode(u.hash, 'hex'), u.number, u.kind, u.media_type, u.size, u.page, u.start, u."end",
       u.caption, u.inline, decode(u.blob, 'hex')
  from json_to_recordset(%(assets)s::json)
       u(content text, hash text, number int, kind text, media_type text, size bigint, page int, start bigint, "end" bigint,
         caption text, inline boolean, blob text)
on conflict do nothing;

-- name: mark_inline
-- Images whose text is a part of the content.
update content_asset set inline = true where content_hash = %(content)s and hash = any (%(hashes)s::bytea[]);

-- name: assets_in
-- Images and tables that were found inside a content, in order.
select hash, number, kind, media_type, size, page, start, "end", caption, inline, blob_hash
  from content_asset where content_hash = %(content)s order by number, hash;

-- name: said_of
-- What an analyst said before of images with these bytes, for any item or for one.
select distinct on (a.hash) a.hash, a.text from asset a
 where a.hash = any (%(hashes)s::bytea[]) and a.analyst = %(analyst)s and a.state = 'described'
   and (%(item)s::uuid is null or a.item_id = %(item)s)
 order by a.hash, a.item_id, a.version;

-- name: add_assets
-- () -> described | waiting, for the images of versions.
insert into asset (item_id, version, hash, analyst, state, text)
select u.item, u.version, u.hash, u.analyst, case when u.text is null then 'waiting' else 'described' end,
       coalesce(u.text, '')
  from unnest(%(items)s::uuid[], %(versions)s::int[], %(hashes)s::bytea[], %(analysts)s::text[], %(texts)s::text[])
       u(item, version, hash, analyst, text)
on conflict do nothing;

-- name: next_asset
-- The next image that waits, of a version that answers, of an item that is not being deleted.
select a.hash, c.media_type, c.page, c.start, a.state = 'asking' as asking, b.name as blob, i.title
  from asset a
  join item i on i.id = a.item_id and i.live_version = a.version and i.status <> 'deleting'
  join item_version v on v.item_id = a.item_id and v.version = a.version
  join content_asset c on c.content_hash = v.content_hash and c.hash = a.hash
  join blob b on b.hash = c.blob_hash
 where a.item_id = %(item)s and a.version = %(version)s and a.state in ('waiting', 'asking')
 order by c.number, a.hash limit 1;

-- name: set_asking
-- waiting -> asking.
update asset set state = 'asking' where item_id = %(item)s and version = %(version)s and hash = %(hash)s;

-- name: put_back
-- asking -> waiting.
update asset set state = 'waiting'
 where item_id = %(item)s and version = %(version)s and hash = %(hash)s and state = 'asking';

-- name: lock_answering
-- The place behind the last chunk of a version, if it answers; its item is the caller's until the transaction ends.
select i.chunk_count from item i
 where i.id = %(item)s and i.live_version = %(version)s and i.status <> 'deleting' for no key update of i;

-- name: set_described
-- waiting | asking -> described.
update asset set state = 'described', text = %(text)s, error_code = null, error_message = null
 where item_id = %(item)s and version = %(version)s and hash = %(hash)s;

-- name: more_chunks
-- What an image says answers too.
update item set chunk_count = chunk_count + %(chunks)s, updated_at = clock_now() where id = %(item)s;

-- name: give_up_assets
-- waiting | asking -> failed.
update asset set state = 'failed', error_code = %(code)s, error_message = %(message)s
 where item_id = %(item)s and version = %(version)s and state in ('waiting', 'asking')
   and (%(hash)s::bytea is null or hash = %(hash)s);

-- name: set_analysed
-- No image of a version waits any more: noted once.
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

-- name: reopen_assets
-- failed -> waiting, in the versions that answer.
with back as (
    update asset a set state = 'waiting', error_code = null, error_message = null
      from item i where i.id = any (%(ids)s::uuid[]) and a.item_id = i.id and a.version = i.live_version and a.state = 'failed'
    returning a.item_id, a.version)
select distinct item_id as id, version from back order by 1;

-- name: show_assets
-- The images and tables of the version that answers, and what was said of them.
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

-- name: conversion
-- The conversion for a version of an item.
select item_id, version, processor, remote_id, checks, waited, progress, position
  from conversion where item_id = %(item)s and version = %(version)s;

-- name: save_conversion
-- () | starting | under way -> starting | under way.
insert into conversion (item_id, version, processor, remote_id, checks, waited, progress, position)
values (%(item)s, %(version)s, %(processor)s, %(remote_id)s, %(checks)s, %(waited)s, %(progress)s, %(position)s)
on conflict (item_id, version) do update
   set remote_id = excluded.remote_id, checks = excluded.checks, waited = excluded.waited, progress = excluded.progress,
       position = excluded.position;

-- name: drop_conversions
-- Forgets the conversions of items, of one version or of all.
delete from conversion where item_id = any (%(ids)s::uuid[]) and (%(version)s::int is null or version = %(version)s)
returning item_id, version, processor, remote_id, checks, waited, progress, position;

-- name: forsaken_conversions
-- Items with conversions that no job looks after.
select distinct c.item_id from conversion c
 where not exists (select from job j where j.subject = c.item_id and j.kind = 'check_file_processing_result'
                      and j.state <> 'dead' and (j.payload ->> 'version')::int = c.version)
 limit %(limit)s;

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
fetched as materialized (
    select distinct v.original as hash from item_version v where v.item_id = any (%(ids)s::uuid[]) and v.original is not null),
gone as (
    delete from item i using hit where i.id = hit.id returning i.id)
select (select count(*)::int from gone) as items,
       array(select hash from used) as contents,
       array(select blob_hash from hit where blob_hash is not null union select hash from fetched) as blobs;

-- name: lock_contents
-- Contents that nobody takes into use until the transaction ends; one that is being used right now is passed over.
select hash from content where hash = any (%(hashes)s::bytea[]) for update skip locked;

-- name: collect_contents
-- Forgets contents that no version uses. The caller has locked them: this snapshot is newer than the locks.
delete from content c
 where c.hash = any (%(hashes)s::bytea[]) and not exists (select from item_version v where v.content_hash = c.hash);

-- name: blobs_inside
-- What is kept of the insides of contents.
select e.blob_hash from attachment e where e.content_hash = any (%(hashes)s::bytea[])
 union
select a.blob_hash from content_asset a where a.content_hash = any (%(hashes)s::bytea[]) and a.blob_hash is not null;

-- name: lock_blobs
-- Blobs that nobody takes into use until the transaction ends; waits for who is doing so right now.
select hash from blob where hash = any (%(hashes)s::bytea[]) order by hash for update;

-- name: lock_free_blobs
-- The same; one that somebody is taking into use right now is passed over.
select hash from blob where hash = any (%(hashes)s::bytea[]) order by hash for update skip locked;

-- name: touch_blob
-- A blob that is about to be used stays for a while; its name in the store.
update blob set touched_at = clock_now() where hash = %(hash)s returning name;

-- name: doom_blobs
-- Blobs that nothing uses are none any more, and their names deleting.
-- The caller has locked them: this snapshot is newer than the locks.
with gone as (
    delete from blob b
     where b.hash = any (%(hashes)s::bytea[]) and blob_is_unused(b.hash)
    returning b.name)
insert into pending_blob_name (name, deleting) select name, true from gone;

-- name: unused_blobs
-- Blobs that were stored long ago, and that nothing uses.
select hash from blob b
 where b.touched_at < clock_now() - interval '30 minutes' and blob_is_unused(b.hash)
 limit 10000;

-- name: hold_blobs
-- Blobs that are there, and stay so until the transaction ends.
select hash from blob where hash = any (%(hashes)s::bytea[]) order by hash for share;

-- name: announce_name
-- () -> pending_blob_name: bytes are about to get this name. A day is far more than that takes.
insert into pending_blob_name (name, deleting, due_at) values (%(name)s, false, clock_now() + interval '1 day');

-- name: claim_name
-- pending_blob_name -> (): the caller's to keep, unless it is deleting.
delete from pending_blob_name where name = %(name)s and not deleting returning name;

-- name: keep_blob
-- () -> kept, under this name; under the one that it has when equal bytes are kept already.
insert into blob (hash, size, name) values (%(hash)s, %(size)s, %(name)s)
on conflict (hash) do update set touched_at = clock_now()
returning name;

-- name: doom_name
-- () | deleting -> deleting.
insert into pending_blob_name (name, deleting) values (%(name)s, true) on conflict (name) do nothing;

-- name: doom_due
-- pending_blob_name -> deleting, for what was announced long ago: whoever wanted to keep it is gone, or comes too late.
update pending_blob_name set deleting = true, due_at = clock_now() where not deleting and due_at <= clock_now();

-- name: doomed_names
-- Names to take out of the store.
select name from pending_blob_name where deleting order by name limit %(limit)s;

-- name: forget_names
-- deleting -> gone, once they are out of the store.
delete from pending_blob_name where name = any (%(names)s::text[]) and deleting;
