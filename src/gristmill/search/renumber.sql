-- name: read_chunks_after
-- Chunks of a version after an index, with the words that are indexed with them.
select c.no, c.item_id, i.index_title as title, c.headings, c.text, c.embedding::text as embedding, c.index
  from chunk c join item i on i.id = c.item_id
 where c.set_id = %(set)s and c.item_id = %(item)s and c.version = %(version)s and c.index > %(after)s
 order by c.index limit %(limit)s;

-- name: renumber_chunks
-- Gives chunks new numbers; the old ones count as deleted.
with moved as (
    update chunk c set no = u.new from unnest(%(old)s::bigint[], %(new)s::bigint[]) u(old, new)
     where c.set_id = %(set)s and c.no = u.old returning u.old)
insert into deleted_chunk (set_id, no) select %(set)s, old from moved;

-- name: items_with_chunks
-- Those of the items whose live version has chunks in a set.
select i.id from item i
 where i.id = any (%(ids)s::uuid[]) and exists (
    select from chunk c where c.set_id = %(set)s and c.item_id = i.id and c.version = i.live_version);

-- name: drop_items_of_sets
-- Delete the chunks of these items in the sets of a base that is not, or no longer, theirs.
with deleted as (
    delete from chunk c using item i
     where c.set_id = any (array(select s.id from chunk_set s where s.base_id = %(base)s))
       and c.item_id = any (%(ids)s::uuid[]) and i.id = c.item_id and i.base_id <> %(base)s
    returning c.set_id, c.no)
insert into deleted_chunk (set_id, no) select set_id, no from deleted;
