-- name: pinned_numbers
-- Those of the chunks that people pinned.
select c.no from chunk c join chunk_mark m on m.item_id = c.item_id and m.text_hash = c.text_hash
 where c.set_id = %(set)s and c.no = any (%(nos)s::bigint[]) and m.mark = 'pinned';

-- name: set_chunk_mark
-- Marks the text of a live chunk; no row if there is no such chunk.
insert into chunk_mark (item_id, text_hash, mark)
select c.item_id, c.text_hash, %(mark)s from chunk c join item i on i.id = c.item_id and i.live_version = c.version
 where c.set_id = %(set)s and c.item_id = %(item)s and c.id = %(chunk)s and c.text_hash is not null
on conflict (item_id, text_hash) do update set mark = excluded.mark, created_at = clock_now()
returning item_id;

-- name: clear_chunk_mark
-- Removes the mark of a text; no row if it has none.
delete from chunk_mark m using chunk c
 where c.set_id = %(set)s and c.item_id = %(item)s and c.id = %(chunk)s
   and m.item_id = c.item_id and m.text_hash = c.text_hash
returning m.item_id;

-- name: find_chunk
-- A chunk of the live version of an item, with its mark.
select c.id, c.item_id, i.base_id, c.version, c.index, c.no, c.text, c.start, c."end", c.page, c.headings,
       i.title, i.index_title, i.type, i.source, i.metadata,
       (select m.mark from chunk_mark m where m.item_id = c.item_id and m.text_hash = c.text_hash) as mark
  from chunk c join item i on i.id = c.item_id and i.live_version = c.version
 where c.set_id = %(set)s and c.item_id = %(item)s and c.id = %(chunk)s;

-- name: count_disabled
-- How many chunks of an item's live version are disabled.
select count(*)::int from item i
  join chunk c on c.set_id = %(set)s and c.item_id = i.id and c.version = i.live_version
  join chunk_mark m on m.item_id = c.item_id and m.text_hash = c.text_hash and m.mark = 'disabled'
 where i.id = %(item)s;

-- name: insert_imported_marks
-- Inserts marks as an archive has them.
insert into chunk_mark (item_id, text_hash, mark)
select u.item, u.hash, u.mark from unnest(%(items)s::uuid[], %(hashes)s::uuid[], %(marks)s::text[]) u(item, hash, mark)
on conflict do nothing;
