-- name: one_snapshot
-- Every statement of the transaction sees the same moment.
set transaction isolation level repeatable read read only;

-- name: plan_each
-- Plans every statement for its own values, until the transaction ends: one plan for all eyes and filters is a bad one.
set local plan_cache_mode = force_custom_plan;

-- name: numbers
-- Numbers for new chunks, rising.
select nextval('chunk_no') from generate_series(1, %(count)s::int);

-- name: insert_segment
-- () -> written.
insert into segment (base_id, lexer_version, chunks, tokens, languages, nos, items, lengths, signs, terms, ordinals, counts)
values (%(base)s, %(recipe)s, %(chunks)s, %(tokens)s, %(languages)s, %(nos)s, %(items)s, %(lengths)s, %(codes)s,
        %(lexicon)s, %(places)s, %(counts)s);

-- name: drop_unpublished
-- Removes what attempts at any version have written that does not answer.
with gone as (
    delete from chunk c using item i
     where c.base_id = %(base)s and c.item_id = %(item)s and i.id = c.item_id and c.version is distinct from i.live_version
    returning c.base_id, c.no)
insert into deleted_chunk (base_id, no) select base_id, no from gone;

-- name: drop_other_versions
-- Removes what does not answer, or no longer, of items that have just been published.
with gone as (
    delete from chunk c using item i
     where c.base_id = %(base)s and c.item_id = any (%(items)s::uuid[]) and i.id = c.item_id
       and c.version is distinct from i.live_version
    returning c.base_id, c.no)
insert into deleted_chunk (base_id, no) select base_id, no from gone;

-- name: drop_version
-- Removes what was written of one version.
with gone as (
    delete from chunk where base_id = %(base)s and item_id = %(item)s and version = %(version)s returning base_id, no)
insert into deleted_chunk (base_id, no) select base_id, no from gone;

-- name: cut_back
-- Removes what was written of one version from a number on.
with gone as (
    delete from chunk where base_id = %(base)s and item_id = %(item)s and version = %(version)s and index >= %(first)s
    returning base_id, no)
insert into deleted_chunk (base_id, no) select base_id, no from gone;

-- name: written
-- Which chunks of a version are there.
select index from chunk where base_id = %(base)s and item_id = %(item)s and version = %(version)s;

-- name: vectors
-- The vectors of texts that were embedded before.
select distinct on (text_hash) text_hash, embedding from chunk
 where base_id = any (%(bases)s::uuid[]) and text_hash = any (%(hashes)s::uuid[]);

-- name: drop_items
-- Removes every chunk of items.
with gone as (
    delete from chunk where base_id = %(base)s and item_id = any (%(items)s::uuid[]) returning base_id, no)
insert into deleted_chunk (base_id, no) select base_id, no from gone;

-- name: list_chunks
-- The chunks that answer, of an item and all below it, for these eyes, in order, after a cursor.
select c.id, c.item_id, c.base_id, c.version, c.index, c.no, c.text, c.start, c."end", c.page, c.headings,
       i.title, i.type, i.source, i.metadata
  from item_subtree(array[%(item)s::uuid]) s
  join item i on i.id = s.id and i.status <> 'deleting'
  join base b on b.id = i.base_id left join item o on o.id = i.acl_from
  join chunk c on c.base_id = %(base)s and c.item_id = i.id and c.version = i.live_version
 where item_is_visible(%(eyes)s::text[], i.acl_from, o.acl, b.acl)
   and (%(after_item)s::uuid is null or (c.item_id, c.index) > (%(after_item)s::uuid, %(after_index)s::int))
 order by c.item_id, c.index limit %(limit)s;

-- name: segments
-- The segments of a base, oldest first.
select id, lexer_version, chunks, languages from segment where base_id = %(base)s order by id;

-- name: segment_arrays
-- What searching keeps of segments: of small ones their postings too.
select id, nos, items, lengths, signs, terms,
       case when chunks <= %(small)s then ordinals else '' end, case when chunks <= %(small)s then counts else '' end
  from segment where base_id = %(base)s and id = any (%(ids)s::bigint[]);

-- name: postings
-- Stretches of segments' postings, in the order they were asked for: no more of a segment is read than that.
select substring(s.ordinals from 2 * w.start + 1 for 2 * w.size), substring(s.counts from w.start + 1 for w.size)
  from unnest(%(segments)s::bigint[], %(starts)s::int[], %(sizes)s::int[]) with ordinality w(segment, start, size, place)
  left join segment s on s.base_id = %(base)s and s.id = w.segment
 order by w.place;

-- name: scope
-- The items that a search may answer from, at most so many.
select i.id
  from item_searchable(%(base)s::uuid, %(eyes)s::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                     %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                     %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
 limit %(limit)s;

-- name: nearest
-- The chunks nearest to a vector, by cosine, among those that answer: all are looked at.
select c.id, c.no, 1 - (c.embedding <=> %(vector)s::halfvec) as score
  from chunk c
  join item_searchable(%(base)s::uuid, %(eyes)s::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                     %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                     %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
    on i.id = c.item_id and i.live_version = c.version
 where c.base_id = %(base)s
 order by c.embedding <=> %(vector)s::halfvec, c.no
 limit %(limit)s;

-- name: nearest_of_items
-- The same, among the chunks of these items.
select c.id, c.no, 1 - (c.embedding <=> %(vector)s::halfvec) as score
  from item_searchable(%(base)s::uuid, %(eyes)s::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                     %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                     %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
  join chunk c on c.base_id = %(base)s and c.item_id = i.id and c.version = i.live_version
 where i.id = any (%(items)s::uuid[])
 order by c.embedding <=> %(vector)s::halfvec, c.no
 limit %(limit)s;

-- name: measured
-- How near these chunks are to a vector, by cosine, those of them that answer.
select c.id, c.no, 1 - (c.embedding <=> %(vector)s::halfvec) as score
  from chunk c
  join item_searchable(%(base)s::uuid, %(eyes)s::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                     %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                     %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
    on i.id = c.item_id and i.live_version = c.version
 where c.base_id = %(base)s and c.no = any (%(nos)s::bigint[]);

-- name: answering
-- Those of these chunks that answer.
select c.id, c.no, 0::float8 as score
  from chunk c
  join item_searchable(%(base)s::uuid, %(eyes)s::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                     %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                     %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
    on i.id = c.item_id and i.live_version = c.version
 where c.base_id = %(base)s and c.no = any (%(nos)s::bigint[]);

-- name: texts
-- The texts of chunks, with what else is part of their words.
select c.no, c.item_id, i.title, c.headings, c.text
  from chunk c join item i on i.id = c.item_id
 where c.base_id = %(base)s and c.no = any (%(nos)s::bigint[]) order by c.no;

-- name: chunks
-- What hits show, where they still answer for these eyes.
select c.id, c.item_id, c.base_id, c.version, c.index, c.no, c.text, c.start, c."end", c.page, c.headings,
       i.title, i.type, i.source, i.metadata
  from chunk c
  join item_searchable(%(base)s::uuid, %(eyes)s::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                     %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                     %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
    on i.id = c.item_id and i.live_version = c.version
 where c.base_id = %(base)s and c.no = any (%(nos)s::bigint[]);

-- name: neighbours
-- The chunks around chunks, of the same item and version; the caller may see the ones in the middle.
select n.item_id, n.index, n.text
  from unnest(%(items)s::uuid[], %(versions)s::int[], %(indexes)s::int[]) m(item_id, version, index)
  join chunk n on n.base_id = %(base)s and n.item_id = m.item_id and n.version = m.version
              and n.index between m.index - %(around)s::int and m.index + %(around)s::int;

-- name: untidy
-- Bases whose segments are many and small, were lexed by another lexer_version, or hold much that is gone, or gone for long.
select b.id from base b
 where b.status <> 'deleting'
   and (   (select count(*) from segment s where s.base_id = b.id and s.chunks <= %(small)s) >= %(many)s
        or exists (select from segment s where s.base_id = b.id and s.lexer_version <> %(recipe)s)
        or exists (select from deleted_chunk g where g.base_id = b.id and g.deleted_at < clock_now() - %(patience)s::interval)
        or (select count(*) from deleted_chunk g where g.base_id = b.id)
           > greatest(%(few_gone)s, (select sum(s.chunks) / 10 from segment s where s.base_id = b.id)));

-- name: gone
-- The numbers of chunks that are gone and still in segments.
select no from deleted_chunk where base_id = %(base)s order by no;

-- name: gone_for_long
-- Whether some are so for longer than anybody should wait.
select exists (select from deleted_chunk where base_id = %(base)s and deleted_at < clock_now() - %(patience)s::interval);

-- name: segment_words
-- All postings of segments.
select id, ordinals, counts from segment where base_id = %(base)s and id = any (%(ids)s::bigint[]);

-- name: to_lex
-- Chunks with all that their segment holds of them.
select c.no, c.item_id, i.title, c.headings, c.text, c.embedding::text as embedding
  from chunk c join item i on i.id = c.item_id
 where c.base_id = %(base)s and c.no = any (%(nos)s::bigint[]) order by c.no;

-- name: drop_segments
-- written -> merged: segments make room for the one that holds what is left of them.
delete from segment where base_id = %(base)s and id = any (%(segments)s::bigint[]) returning id;

-- name: forget_gone
-- No segment holds these numbers any more.
delete from deleted_chunk where base_id = %(base)s and no = any (%(nos)s::bigint[]);

-- name: effective_acl
-- Who may see an item, as its own list, one above it, or its base's says.
select case when i.acl_from is null then b.acl else o.acl end
  from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
 where i.id = %(item)s;

-- name: nos_of_item
-- The numbers of the chunks of an item's live version.
select c.no from item i join chunk c on c.base_id = i.base_id and c.item_id = i.id and c.version = i.live_version
 where i.base_id = %(base)s and i.id = %(item)s order by c.index;

-- name: passes
-- Whether an item is in a scope.
select exists (
    select from item_searchable(%(base)s::uuid, %(eyes)s::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                              %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                              %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
     where i.id = %(item)s);

-- name: near
-- How near the nearest of some chunks is to a vector, and how many chunks that answer are nearer.
with best as materialized (
    select min(c.embedding <=> %(vector)s::halfvec) as distance from chunk c
     where c.base_id = %(base)s and c.no = any (%(nos)s::bigint[]))
select 1 + (select count(*) from chunk c
              join item i on i.id = c.item_id and i.live_version = c.version and i.status <> 'deleting'
             where c.base_id = %(base)s and c.embedding <=> %(vector)s::halfvec < best.distance)::int as rank,
       1 - best.distance as similarity
  from best where best.distance is not null;
