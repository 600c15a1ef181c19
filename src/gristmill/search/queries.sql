-- name: drop_unpublished
-- Removes what attempts at any version have written that does not answer.
delete from chunk c using item i
 where c.base_id = %(base)s and c.item_id = %(item)s and i.id = c.item_id and c.version is distinct from i.live_version;

-- name: drop_other_versions
-- Removes what does not answer, or no longer, of items that have just been published.
delete from chunk c using item i
 where c.base_id = %(base)s and c.item_id = any (%(items)s::uuid[]) and i.id = c.item_id
   and c.version is distinct from i.live_version;

-- name: drop_version
-- Removes what was written of one version.
delete from chunk where base_id = %(base)s and item_id = %(item)s and version = %(version)s;

-- name: written
-- Which chunks of a version are there.
select index from chunk where base_id = %(base)s and item_id = %(item)s and version = %(version)s;

-- name: vectors
-- The vectors of texts that were embedded before.
select distinct on (text_hash) text_hash, embedding from chunk
 where base_id = any (%(bases)s::uuid[]) and text_hash = any (%(hashes)s::uuid[]);

-- name: drop_items
-- Removes every chunk of items.
delete from chunk where base_id = %(base)s and item_id = any (%(items)s::uuid[]);

-- name: list_chunks
-- The chunks that answer, of an item and all below it, in order, after a cursor.
select c.id, c.item_id, c.base_id, c.version, c.index, c.text, c.start, c."end", c.headings, i.title, i.source
  from item_subtree(array[%(item)s::uuid]) s
  join item i on i.id = s.id and i.status <> 'deleting'
  join chunk c on c.base_id = %(base)s and c.item_id = i.id and c.version = i.live_version
 where %(after_item)s::uuid is null or (c.item_id, c.index) > (%(after_item)s::uuid, %(after_index)s::int)
 order by c.item_id, c.index limit %(limit)s;

-- name: nearest
-- The chunks nearest to a vector, by cosine, among those that answer.
select c.id, 1 - (c.embedding <=> %(vector)s::halfvec) as score
  from chunk c join item i on i.id = c.item_id and i.live_version = c.version and i.status <> 'deleting'
 where c.base_id = %(base)s
 order by c.embedding <=> %(vector)s::halfvec
 limit %(limit)s;

-- name: matching
-- The chunks with any of the words, among those that answer.
select c.id, ts_rank(c.words, %(words)s::tsquery)::float8 as score
  from chunk c join item i on i.id = c.item_id and i.live_version = c.version and i.status <> 'deleting'
 where c.base_id = %(base)s and c.words @@ %(words)s::tsquery
 order by score desc, c.id
 limit %(limit)s;

-- name: chunks
-- What a hit shows.
select c.id, c.item_id, c.base_id, c.version, c.index, c.text, c.start, c."end", c.headings, i.title, i.source
  from chunk c join item i on i.id = c.item_id and i.live_version = c.version and i.status <> 'deleting'
 where c.base_id = %(base)s and c.id = any (%(ids)s);
