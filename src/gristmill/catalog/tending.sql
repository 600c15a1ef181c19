-- name: set_title
-- Renames an item; with a key, that is its identity among its siblings from now on.
update item set title = %(title)s, titled_by_source = false, source_key = coalesce(%(key)s, source_key), updated_at = clock_now()
 where id = %(id)s and status <> 'deleting' returning id;

-- name: rename_attachments
-- Gives attachments the names that they have in their tool now, as titles too, unless a person gave them others.
update item i
   set title = case when i.title = left(i.source ->> 'name', 500) then left(u.name, 500) else i.title end,
       source = i.source || jsonb_build_object('name', u.name), updated_at = clock_now()
  from unnest(%(ids)s::uuid[], %(names)s::text[]) u(id, name)
 where i.id = u.id and i.status <> 'deleting';

-- name: item_provenance
-- Whether the sources of containers or documents listed these items, and their identity among their siblings.
select id, listed_version > 0 as is_listed, source_key from item where id = any (%(ids)s::uuid[]);

-- name: keys_in_use
-- Which of these keys other items under a parent have.
select i.title from unnest(%(types)s::text[], %(keys)s::text[]) u(type, source_key)
  join item i on i.base_id = %(base)s and i.parent_id is not distinct from %(parent)s::uuid and i.type = u.type
             and md5(i.source_key) = md5(u.source_key) and i.source_key = u.source_key and i.status <> 'deleting'
 where not i.id = any (%(ids)s::uuid[]) limit 1;

-- name: is_within
-- Whether an item is one of these items, or below one.
with recursive up(id, parent_id) as (
    select i.id, i.parent_id from item i where i.id = %(id)s
    union all
    select p.id, p.parent_id from up u join item p on p.id = u.parent_id)
select exists (select from up where id = any (%(roots)s::uuid[]));

-- name: parents_of
-- The containers that these items are in.
select distinct parent_id from item where id = any (%(ids)s::uuid[]) and parent_id is not null;

-- name: set_parent
-- Files items under another container of a base, or at its top, with everything below them.
-- Those without an access list of their own inherit that of the container.
with recursive moved(id, is_root, inherits) as (
    select i.id, true, i.acl is null from item i where i.id = any (%(roots)s::uuid[])
    union all
    select c.id, false, m.inherits and c.acl is null from moved m join item c on c.parent_id = m.id)
update item i
   set parent_id = case when m.is_root then %(parent)s::uuid else i.parent_id end, base_id = %(base)s,
       acl_from = case when m.inherits then (select p.acl_from from item p where p.id = %(parent)s::uuid) else i.acl_from end,
       updated_at = clock_now()
  from moved m where i.id = m.id
returning i.id;

-- name: applying_acls
-- The access lists that apply to these items, each once.
select distinct array(select unnest(case when i.acl_from is null then b.acl else o.acl end) order by 1)
  from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
 where i.id = any (%(ids)s::uuid[]) and i.acl is null;

-- name: acl_below
-- The access list that items without one of their own have under a container, or at the top of a base.
select array(select unnest(coalesce((select case when p.acl_from is null then b.acl else o.acl end
                                       from item p left join item o on o.id = p.acl_from where p.id = %(parent)s::uuid),
                                    b.acl)) order by 1)
  from base b where b.id = %(base)s;

-- name: subtree_ids
-- These items and everything below them.
select s.id from item_subtree(%(roots)s::uuid[]) s order by s.id;

-- name: count_connectors
-- How many containers of connectors, and documents of connectors, are among these items.
select count(*)::int from item where id = any (%(ids)s::uuid[]) and type in ('connector', 'record');

-- name: mark_missing_in
-- Notes which documents of these items a set of another base lacks.
insert into missing_item (set_id, item_id)
select %(set)s::uuid, i.id from item i
 where i.id = any (%(ids)s::uuid[]) and i.live_version is not null and i.chunk_count > 0 and i.status <> 'deleting'
   and i.id <> all (%(built)s::uuid[])
 order by 1, 2
on conflict do nothing;

-- name: still_missing
-- Those of the items that a set lacks.
select item_id from missing_item where set_id = %(set)s and item_id = any (%(ids)s::uuid[]);

-- name: forget_missing_elsewhere
-- Sets of other bases than its own no longer lack an item.
delete from missing_item m using chunk_set s, item i
 where m.item_id = any (%(ids)s::uuid[]) and s.id = m.set_id and i.id = m.item_id and s.base_id <> i.base_id;

-- name: change_tags
-- Adds tags to items and removes others; what else their metadata has stays.
-- Items that would have too many tags are left alone.
update item i set updated_at = clock_now(),
       metadata = case when n.tags = '{}' then i.metadata - 'tags' else jsonb_set(i.metadata, '{tags}', to_jsonb(n.tags)) end
  from (select i.id, array(
           select t.tag from (
               select e.tag, e.n from jsonb_array_elements_text(
                   case jsonb_typeof(i.metadata -> 'tags') when 'array' then i.metadata -> 'tags'
                                                           when 'string' then jsonb_build_array(i.metadata -> 'tags')
                                                           else '[]' end) with ordinality e(tag, n)
               union all
               select a.tag, 1000000 + a.n from unnest(%(added)s::text[]) with ordinality a(tag, n)) t
            where t.tag <> all (%(removed)s::text[])
            group by t.tag order by min(t.n)) as tags
          from item i where i.id = any (%(ids)s::uuid[]) and i.status <> 'deleting') n
 where i.id = n.id and cardinality(n.tags) <= %(limit)s
   and n.tags is distinct from array(select jsonb_array_elements_text(
           case jsonb_typeof(i.metadata -> 'tags') when 'array' then i.metadata -> 'tags' else '[]' end))
returning i.id;

-- name: count_tags
-- The tags of a base that principals see, the most frequent first.
select t.tag, count(*)::int as items
  from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
 cross join lateral jsonb_array_elements_text(case jsonb_typeof(i.metadata -> 'tags') when 'array' then i.metadata -> 'tags'
                                                                                     else '[]' end) t(tag)
 where i.base_id = %(base)s and i.status <> 'deleting' and i.metadata ? 'tags'
   and item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)
 group by t.tag order by 2 desc, 1 limit %(limit)s;
