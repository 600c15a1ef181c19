-- name: tree_window
-- A window of the children of one item, of the roots, or, flat, of all matching items; each branch has its own index.
with chosen as (
    select i.id from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where not %(flat)s and %(parent)s::uuid is null and i.base_id = %(base)s and i.parent_id is null
       and i.status <> 'deleting' and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)
    union all
    select i.id from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where not %(flat)s and i.base_id = %(base)s and i.parent_id = %(parent)s::uuid
       and i.status <> 'deleting' and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)
    union all
    select i.id from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where %(flat)s and i.base_id = %(base)s and i.status <> 'deleting'
       and (%(statuses)s::text[] is null or i.status = any (%(statuses)s::text[]))
       and (%(ids)s::uuid[] is null or i.id = any (%(ids)s::uuid[]))
       and (%(title)s::text is null or strpos(lower(i.title), lower(%(title)s)) > 0)
       and not (%(leaves)s and i.is_container)
       and (%(types)s::text[] is null or i.type = any (%(types)s::text[]))
       and (%(tags)s::jsonb is null or i.filterable @> %(tags)s::jsonb)
       and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)
    order by 1 offset %(offset)s limit %(limit)s)
select i.*,
       (select count(*)::int from item c left join item o on o.id = c.acl_from
         where c.parent_id = i.id and c.status <> 'deleting'
           and item_is_visible(%(principals)s::text[], c.acl_from, o.acl, b.acl)) as child_count,
       case when i.parent_id is null then '{}' else array(
           with recursive up(title, parent_id, acl_from, height) as (
               select a.title, a.parent_id, a.acl_from, 1 from item a where a.id = i.parent_id
               union all
               select a.title, a.parent_id, a.acl_from, u.height + 1 from up u join item a on a.id = u.parent_id)
           select u.title from up u left join item o on o.id = u.acl_from
            where item_is_visible(%(principals)s::text[], u.acl_from, o.acl, b.acl) order by u.height desc) end as path
  from chosen join item_row i on i.id = chosen.id join base b on b.id = i.base_id
 order by i.id;

-- name: tree_rows
-- These items with the number of their children and the titles of their ancestors, in this order.
select i.*,
       (select count(*)::int from item c left join item o on o.id = c.acl_from
         where c.parent_id = i.id and c.status <> 'deleting'
           and item_is_visible(%(principals)s::text[], c.acl_from, o.acl, b.acl)) as child_count,
       case when i.parent_id is null then '{}' else array(
           with recursive up(title, parent_id, acl_from, height) as (
               select a.title, a.parent_id, a.acl_from, 1 from item a where a.id = i.parent_id
               union all
               select a.title, a.parent_id, a.acl_from, u.height + 1 from up u join item a on a.id = u.parent_id)
           select u.title from up u left join item o on o.id = u.acl_from
            where item_is_visible(%(principals)s::text[], u.acl_from, o.acl, b.acl) order by u.height desc) end as path
  from unnest(%(ids)s::uuid[]) with ordinality u(id, n) join item_row i on i.id = u.id join base b on b.id = i.base_id
 order by u.n;

-- name: sorted_ids
-- The ids of a window, in the order of a column; those that lack it come last, and equal ones by creation.
select s.id from (
    select i.id,
           case %(sort)s::text when 'title' then lower(i.title) when 'type' then i.type when 'status' then i.status end as text,
           case when %(descending)s then -1 else 1 end * case %(sort)s::text
               when 'size' then i.size_bytes::numeric when 'chunks' then i.chunk_count
               when 'updated' then extract(epoch from i.updated_at) end as number
      from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where i.base_id = %(base)s and i.status <> 'deleting'
       and (%(flat)s or i.parent_id is not distinct from %(parent)s::uuid)
       and (%(statuses)s::text[] is null or i.status = any (%(statuses)s::text[]))
       and (%(ids)s::uuid[] is null or i.id = any (%(ids)s::uuid[]))
       and (%(title)s::text is null or strpos(lower(i.title), lower(%(title)s)) > 0)
       and not (%(leaves)s and i.is_container)
       and (%(types)s::text[] is null or i.type = any (%(types)s::text[]))
       and (%(tags)s::jsonb is null or i.filterable @> %(tags)s::jsonb)
       and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)) s
 order by s.number nulls last, case when not %(descending)s then s.text collate "C" end,
          case when %(descending)s then s.text collate "C" end desc,
          case when %(sort)s::text = 'created' and %(descending)s then s.id end desc, s.id
offset %(offset)s limit %(limit)s;

-- name: tree_total
-- How many items such a window can show in all.
select (
    select count(*) from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where not %(flat)s and %(parent)s::uuid is null and i.base_id = %(base)s and i.parent_id is null
       and i.status <> 'deleting' and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)) + (
    select count(*) from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where not %(flat)s and i.base_id = %(base)s and i.parent_id = %(parent)s::uuid
       and i.status <> 'deleting' and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)) + (
    select count(*) from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where %(flat)s and i.base_id = %(base)s and i.status <> 'deleting'
       and (%(statuses)s::text[] is null or i.status = any (%(statuses)s::text[]))
       and (%(ids)s::uuid[] is null or i.id = any (%(ids)s::uuid[]))
       and (%(title)s::text is null or strpos(lower(i.title), lower(%(title)s)) > 0)
       and not (%(leaves)s and i.is_container)
       and (%(types)s::text[] is null or i.type = any (%(types)s::text[]))
       and (%(tags)s::jsonb is null or i.filterable @> %(tags)s::jsonb)
       and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl));

-- name: base_stats
-- Items of bases that principals see, by status and by leaf or container, with the sums of their chunks and percentages.
select i.base_id, i.status, not i.is_container as is_leaf, count(*)::int as count,
       coalesce(sum(i.chunk_count), 0)::bigint as chunks, max(i.updated_at) as changed_at,
       sum(case when i.status in ('completed', 'failed') then 100 else least(coalesce(p.percent, 0), 99) end)::float as percent
  from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
  left join progress p on p.item_id = i.id and p.version = i.wanted_version and i.status not in ('completed', 'failed')
 where i.base_id = any (%(bases)s) and i.status <> 'deleting' and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)
 group by 1, 2, 3;

-- name: root_source
-- The source of the container that people added, for an item that its listing found at any depth.
with recursive up(parent_id, source, listed_version) as (
    select parent_id, source, listed_version from item where id = %(id)s
    union all
    select p.parent_id, p.source, p.listed_version from up u join item p on p.id = u.parent_id where u.listed_version > 0)
select source from up where listed_version = 0;

-- name: outermost_ids
-- Those of the items that are below none of the others.
with recursive up(start, id) as (
    select i.id, i.parent_id from item i where i.id = any (%(ids)s::uuid[]) and i.parent_id is not null
    union all
    select u.start, i.parent_id from up u join item i on i.id = u.id where i.parent_id is not null)
select i.id from unnest(%(ids)s::uuid[]) i(id)
 where not exists (select from up u where u.start = i.id and u.id = any (%(ids)s::uuid[]))
 order by i.id;

-- name: has_children
-- Whether anything is filed below an item.
select exists (select from item where parent_id = %(id)s);

-- name: stale_children
-- Children that an earlier version of a container listed and this one did not.
select i.id from unnest(%(parents)s::uuid[], %(versions)s::int[]) u(id, version)
  join item i on i.parent_id = u.id and i.listed_version > 0 and i.listed_version < u.version and i.status <> 'deleting';

-- name: user_added_descendants
-- What people added below a container: no listing finds it.
select i.id from item_subtree(array[%(root)s::uuid]) s join item i on i.id = s.id
 where s.depth > 0 and i.listed_version = 0 and i.status <> 'deleting';

-- name: has_deleting_descendant
-- Whether something at or below an item is being deleted.
select exists (select from item_subtree(array[%(root)s::uuid]) s join item i on i.id = s.id where i.status = 'deleting');

-- name: unfinished_items
-- What is neither completed nor failed in each of these subtrees, at most `limit` a root.
-- `is_full_rebuild`: it is the root itself, and everything that its source has is being rebuilt.
select u.id, u.title, u.status, r.id as root, u.is_full_rebuild
  from unnest(%(roots)s::uuid[]) r(id) cross join lateral (
    select i.id, i.title, i.status,
           i.id = r.id and (not i.is_container or i.expanded_version < i.wanted_version)
           as is_full_rebuild
      from item_subtree(array[r.id]) s join item i on i.id = s.id
     where i.status not in ('completed', 'failed')
     order by i.status <> 'deleting', i.id <> r.id, i.id limit %(limit)s) u
 order by u.status <> 'deleting', u.id;

-- name: attachment_items
-- The items of a document's attachments.
select id, source_key, blob_hash as blob, status, listed_version from item
 where parent_id = %(parent)s and listed_version > 0 and status <> 'deleting' order by id;

-- name: count_other_attachments
-- How many attachments the outermost document above this one has at any depth, without this one's own.
with recursive up(id, parent_id, height) as (
    select i.id, i.parent_id, 0 from item i where i.id = %(id)s
    union all
    select p.id, p.parent_id, u.height + 1 from up u join item p on p.id = u.parent_id
     where not p.is_container)
select count(*)::int from item_subtree(array[(select u.id from up u order by u.height desc limit 1)]) s
  join item i on i.id = s.id
 where s.depth > 0 and i.status <> 'deleting' and i.parent_id <> %(id)s;

-- name: has_filed_attachments
-- Whether the attachments of a version are filed, as this content has them.
select id from item where id = %(id)s and attachments_version = %(version)s and attachments_content = %(content)s;

-- name: mark_still_listed
-- Notes that a document's new version still has these attachments, unchanged.
update item set listed_version = %(version)s where id = any (%(ids)s::uuid[]);

-- name: mark_attachments_filed
-- Notes that the attachments of a version are filed, as a content has them.
update item set attachments_version = %(version)s, attachments_content = %(content)s where id = %(id)s;
