-- name: next_chunk_numbers
-- Numbers for new chunks, ascending.
select nextval('chunk_no') from generate_series(1, %(count)s::int);

-- name: insert_segment
-- Store a segment.
insert into segment (set_id, lexer_version, chunks, tokens, languages, chunks_by_language, nos, items, lengths, signs,
                     terms, ordinals, counts)
values (%(set)s, %(lexer_version)s, %(chunks)s, %(tokens)s, %(languages)s, %(chunks_by_language)s, %(nos)s, %(items)s,
        %(lengths)s, %(signs)s, %(terms)s, %(ordinals)s, %(counts)s);

-- name: drop_unpublished
-- Delete an item's chunks of versions that are not live, of the set that answers.
with deleted as (
    delete from chunk c using item i
     where c.set_id = (select b.chunk_set from base b where b.id = %(base)s) and c.item_id = %(item)s and i.id = c.item_id
       and c.version is distinct from i.live_version
    returning c.set_id, c.no)
insert into deleted_chunk (set_id, no) select set_id, no from deleted;

-- name: drop_other_versions
-- Delete the chunks of other versions of items that have just been published, of the set that answers.
with deleted as (
    delete from chunk c using item i
     where c.set_id = (select b.chunk_set from base b where b.id = %(base)s) and c.item_id = any (%(items)s::uuid[]) and i.id = c.item_id
       and c.version is distinct from i.live_version
    returning c.set_id, c.no)
insert into deleted_chunk (set_id, no) select set_id, no from deleted;

-- name: drop_begun
-- Delete the chunks of versions that are being made.
with deleted as (
    delete from chunk c using item i
     where c.set_id = %(set)s and i.base_id = %(base)s and i.is_active and c.item_id = i.id
       and c.version is distinct from i.live_version
    returning c.set_id, c.no)
insert into deleted_chunk (set_id, no) select set_id, no from deleted;

-- name: drop_not_live
-- Delete the chunks of other versions than the live ones of items, of one set.
with deleted as (
    delete from chunk c using item i
     where c.set_id = %(set)s and c.item_id = any (%(items)s::uuid[]) and i.id = c.item_id
       and c.version is distinct from i.live_version
    returning c.set_id, c.no)
insert into deleted_chunk (set_id, no) select set_id, no from deleted;

-- name: drop_version
-- Delete the chunks of one version.
with deleted as (
    delete from chunk where set_id = %(set)s and item_id = %(item)s and version = %(version)s returning set_id, no)
insert into deleted_chunk (set_id, no) select set_id, no from deleted;

-- name: drop_from_index
-- Delete the chunks of one version from an index on.
with deleted as (
    delete from chunk where set_id = %(set)s and item_id = %(item)s and version = %(version)s and index >= %(first_index)s
    returning set_id, no)
insert into deleted_chunk (set_id, no) select set_id, no from deleted;

-- name: existing_indexes
-- The indexes of the chunks of a version.
select index from chunk where set_id = %(set)s and item_id = %(item)s and version = %(version)s;

-- name: next_index
-- The index after that of the last chunk of a version.
select coalesce(max(index) + 1, 0) from chunk where set_id = %(set)s and item_id = %(item)s and version = %(version)s;

-- name: find_vectors
-- The vectors of texts that were embedded before.
select distinct on (text_hash) text_hash, embedding from chunk
 where set_id = any (%(sets)s::uuid[]) and text_hash = any (%(hashes)s::uuid[]);

-- name: drop_items
-- Delete every chunk of these items, of all sets of a base.
with deleted as (
    delete from chunk where set_id = any (array(select s.id from chunk_set s where s.base_id = %(base)s))
       and item_id = any (%(items)s::uuid[])
    returning set_id, no)
insert into deleted_chunk (set_id, no) select set_id, no from deleted;

-- name: drop_leftovers
-- Delete the chunks of unpublished versions of finished items, and of deleted items; returns one row per item.
-- In sets that don't answer, other versions than the live one are no damage: they are to be built, or their vectors are reused.
with sets as (
    select s.id, s.id = b.chunk_set as is_live from chunk_set s join base b on b.id = s.base_id where b.id = %(base)s),
left_over as (
    select distinct c.set_id, c.item_id from sets s join chunk c on c.set_id = s.id left join item i on i.id = c.item_id
     where i.id is null or (s.is_live and i.status in ('completed', 'failed') and c.version is distinct from i.live_version)
     limit %(limit)s),
deleted as (
    delete from chunk c using left_over l left join item i on i.id = l.item_id
     where c.set_id = l.set_id and c.item_id = l.item_id and (i.id is null or c.version is distinct from i.live_version)
    returning c.set_id, c.no),
recorded as (
    insert into deleted_chunk (set_id, no) select set_id, no from deleted)
select distinct item_id from left_over;

-- name: list_chunks
-- The live chunks of an item and of everything below it that the viewer can see, in order, after a cursor.
select c.id, c.item_id, i.base_id, c.version, c.index, c.no, c.text, c.start, c."end", c.page, c.headings,
       i.title, i.index_title, i.type, i.source, i.metadata,
       (select m.mark from chunk_mark m where m.item_id = c.item_id and m.text_hash = c.text_hash) as mark
  from item_subtree(array[%(item)s::uuid]) s
  join item i on i.id = s.id and i.status <> 'deleting'
  join base b on b.id = i.base_id left join item o on o.id = i.acl_from
  join chunk c on c.set_id = b.chunk_set and c.item_id = i.id and c.version = i.live_version
 where item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)
   and (%(after_item)s::uuid is null or (c.item_id, c.index) > (%(after_item)s::uuid, %(after_index)s::int))
 order by c.item_id, c.index limit %(limit)s;

-- name: list_segments
-- The segments of a set, oldest first.
select id, lexer_version, chunks, languages, chunks_by_language from segment where set_id = %(set)s order by id;

-- name: read_segment_arrays
-- The arrays and terms of segments.
select id, nos, items, lengths, signs, terms
  from segment where set_id = %(set)s and id = any (%(ids)s::bigint[]);

-- name: read_chunk_arrays
-- The numbers, items and lengths of the chunks of segments, and the size of their sign bits.
select id, nos, items, lengths, octet_length(signs) from segment where set_id = %(set)s and id = any (%(ids)s::bigint[]);

-- name: read_segment_signs
-- The sign bits of segments.
select id, chunks, signs from segment where set_id = %(set)s and id = any (%(ids)s::bigint[]);

-- name: read_segment_indexes
-- The terms of segments; of small segments also the postings.
select id, terms, case when chunks <= %(small)s then ordinals else '' end, case when chunks <= %(small)s then counts else '' end
  from segment where set_id = %(set)s and id = any (%(ids)s::bigint[]);

-- name: read_postings
-- Ranges of postings, in the order of the parameters. Only these ranges are read from disk.
select substring(s.ordinals from 2 * w.start + 1 for 2 * w.size), substring(s.counts from w.start + 1 for w.size)
  from unnest(%(segments)s::bigint[], %(starts)s::int[], %(sizes)s::int[]) with ordinality w(segment, start, size, place)
  left join segment s on s.set_id = %(set)s and s.id = w.segment
 order by w.place;

-- name: items_in_scope
-- The items in scope, up to a limit.
select i.id
  from item_searchable(%(base)s::uuid, %(principals)s::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                     %(condition)s::jsonpath, %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                     %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
 limit %(limit)s;

-- name: visible_items
-- The ids of the items in scope of a viewer with principals, up to a limit, as one value of 16 bytes each.
-- Those with a list of their own are found by its index, then those that inherit one, then those with the base's.
select string_agg(uuid_send(v.id), '') from (
    select i.id from item_searchable(%(base)s::uuid, null::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                          %(condition)s::jsonpath, %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                          %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
     where i.acl && %(principals)s::text[]
    union all
    select i.id from item_searchable(%(base)s::uuid, null::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                          %(condition)s::jsonpath, %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                          %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
     where i.acl is null
       and i.acl_from = any (array(select o.id from item o where o.base_id = %(base)s and o.acl && %(principals)s::text[]))
    union all
    select i.id from item_searchable(%(base)s::uuid, null::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                          %(condition)s::jsonpath, %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                          %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
     where i.acl_from is null and (select b.acl && %(principals)s::text[] from base b where b.id = %(base)s)
     limit %(limit)s) v;

-- name: nearest_chunks
-- The visible chunks nearest to a vector, by cosine; compares all of them.
select c.id, c.no, 1 - (c.embedding <=> %(vector)s::halfvec) as score
  from chunk c
  join item_searchable(%(base)s::uuid, %(principals)s::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                     %(condition)s::jsonpath, %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                     %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
    on i.id = c.item_id and i.live_version = c.version
 where c.set_id = %(set)s
   and not exists (select from chunk_mark m where m.item_id = c.item_id and m.text_hash = c.text_hash and m.mark = 'disabled')
 order by c.embedding <=> %(vector)s::halfvec, c.no
 limit %(limit)s;

-- name: nearest_chunks_of_items
-- The same, among the chunks of these items.
select c.id, c.no, 1 - (c.embedding <=> %(vector)s::halfvec) as score
  from item_searchable(%(base)s::uuid, %(principals)s::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                     %(condition)s::jsonpath, %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                     %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
  join chunk c on c.set_id = %(set)s and c.item_id = i.id and c.version = i.live_version
 where i.id = any (%(items)s::uuid[])
   and not exists (select from chunk_mark m where m.item_id = c.item_id and m.text_hash = c.text_hash and m.mark = 'disabled')
 order by c.embedding <=> %(vector)s::halfvec, c.no
 limit %(limit)s;

-- name: similarities
-- The visible ones of these chunks that are nearest to a vector, by cosine, and how many are visible.
-- Marks are read by a scalar subquery, which the planner does not turn into a join.
-- First the chunks by their numbers, then their items by id, here and below: a plan that needs no statistics of the tables,
-- which are missing right after a large base was written.
with candidate as materialized (
    select c.id, c.no, c.item_id, c.version, 1 - (c.embedding <=> %(vector)s::halfvec) as score
      from chunk c where c.set_id = %(set)s and c.no = any (%(nos)s::bigint[])
       and (select m.mark from chunk_mark m where m.item_id = c.item_id and m.text_hash = c.text_hash) is distinct from 'disabled'),
searchable as materialized (
    select i.id, i.live_version
      from item_searchable(%(base)s::uuid, %(principals)s::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                         %(condition)s::jsonpath, %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                         %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
     where i.id = any (array(select c.item_id from candidate c)))
select c.id, c.no, c.score, count(*) over ()::int as visible
  from candidate c join searchable i on i.id = c.item_id and i.live_version = c.version
 order by c.score desc, c.no
 limit %(limit)s;

-- name: visible_chunk_ids
-- The visible ones of these chunks.
with candidate as materialized (
    select c.id, c.no, c.item_id, c.version
      from chunk c where c.set_id = %(set)s and c.no = any (%(nos)s::bigint[])
       and (select m.mark from chunk_mark m where m.item_id = c.item_id and m.text_hash = c.text_hash) is distinct from 'disabled'),
searchable as materialized (
    select i.id, i.live_version
      from item_searchable(%(base)s::uuid, %(principals)s::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                         %(condition)s::jsonpath, %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                         %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
     where i.id = any (array(select c.item_id from candidate c)))
select c.id, c.no, 0::float8 as score
  from candidate c join searchable i on i.id = c.item_id and i.live_version = c.version;

-- name: chunk_texts
-- The texts of chunks, with the titles and headings that are indexed with them.
select c.no, c.item_id, i.index_title as title, c.headings, c.text
  from chunk c join item i on i.id = c.item_id
 where c.set_id = %(set)s and c.no = any (%(nos)s::bigint[]) order by c.no;

-- name: visible_chunks
-- The visible ones of these chunks, with the columns that hits show.
with candidate as materialized (
    select c.id, c.item_id, c.version, c.index, c.no, c.text, c.start, c."end", c.page, c.headings,
           (select m.mark from chunk_mark m where m.item_id = c.item_id and m.text_hash = c.text_hash) as mark
      from chunk c where c.set_id = %(set)s and c.no = any (%(nos)s::bigint[])),
searchable as materialized (
    select i.id, i.live_version, i.title, i.index_title, i.type, i.source, i.metadata
      from item_searchable(%(base)s::uuid, %(principals)s::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                         %(condition)s::jsonpath, %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                         %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
     where i.id = any (array(select c.item_id from candidate c)))
select c.id, c.item_id, %(base)s::uuid as base_id, c.version, c.index, c.no, c.text, c.start, c."end", c.page, c.headings,
       i.title, i.index_title, i.type, i.source, i.metadata, c.mark
  from candidate c join searchable i on i.id = c.item_id and i.live_version = c.version
 where c.mark is distinct from 'disabled';

-- name: neighbour_texts
-- The chunks around these, of the same item and version; the caller has checked that these are visible.
select n.item_id, n.index, n.text
  from unnest(%(items)s::uuid[], %(versions)s::int[], %(indexes)s::int[]) m(item_id, version, index)
  join chunk n on n.set_id = %(set)s and n.item_id = m.item_id and n.version = m.version
              and n.index between m.index - %(width)s::int and m.index + %(width)s::int
 where not exists (select from chunk_mark k where k.item_id = n.item_id and k.text_hash = n.text_hash and k.mark = 'disabled');

-- name: passage_boxes
-- Where passages of live versions stand, if the viewer can see them: of each part that holds characters of one, its page and boxes.
select m.place, p.start as part_start, p.page, p.boxes
  from unnest(%(items)s::uuid[], %(versions)s::int[], %(starts)s::bigint[], %(ends)s::bigint[])
       with ordinality m(item_id, version, start, "end", place)
  join item i on i.id = m.item_id and i.live_version = m.version and i.status <> 'deleting'
  join base b on b.id = i.base_id left join item o on o.id = i.acl_from
  join item_version v on v.item_id = i.id and v.version = i.live_version
  join content_part p on p.content_hash = v.content_hash and p.start < m."end" and p.page is not null and p.boxes is not null
   and p.start >= (select max(f.start) from content_part f where f.content_hash = v.content_hash and f.start <= m.start)
 where item_is_visible(%(principals)s::text[], i.acl_from, o.acl, b.acl)
 order by m.place, p.start;

-- name: sample_chunks
-- Live chunks of a set, evenly from the first to the last, each once.
select distinct on (t.no) t.item_id, t.title, t.headings, t.text
  from (select min(no) as first, max(no) as last from chunk where set_id = %(set)s) r,
       generate_series(0, %(size)s::int - 1) n,
       lateral (select c.no, c.item_id, i.title, c.headings, left(c.text, 4000) as text
                  from chunk c join item i on i.id = c.item_id and i.live_version = c.version and i.status <> 'deleting'
                 where c.set_id = %(set)s and c.no >= r.first + n * (r.last - r.first + 1) / %(size)s::int
                 order by c.no limit 1) t
 order by t.no;

-- name: count_languages
-- How many chunks of a set are in each language.
select l.key as language, sum(l.value::int)::int as chunks
  from segment s, jsonb_each_text(s.chunks_by_language) l where s.set_id = %(set)s group by 1;

-- name: newest_segment
-- The highest id of a segment.
select max(id) from segment;

-- name: bases_with_new_segments
-- The bases of segments that are newer than another, and the newest segment of each.
select s.base_id, max(g.id) as newest from segment g join chunk_set s on s.id = g.set_id where g.id > %(after)s group by s.base_id;

-- name: next_bases
-- Bases after a cursor, in the order of their ids.
select id from base where id > %(after)s order by id limit %(limit)s;

-- name: bases_to_compact
-- Those of the bases with many small segments, segments of another lexer version, or many or old deleted chunks, in any set.
select distinct b.id from base b join chunk_set t on t.base_id = b.id and t.state <> 'removing'
 where b.id = any (%(bases)s::uuid[]) and b.status <> 'deleting' and b.index_kind = 'embedded'
   and (   (select count(*) from segment s where s.set_id = t.id and s.chunks <= %(small)s) >= %(min_small)s
        or exists (select from segment s where s.set_id = t.id and s.lexer_version <> %(lexer_version)s)
        or exists (select from deleted_chunk g where g.set_id = t.id and g.deleted_at < clock_now() - %(max_age)s::interval)
        or (select count(*) from deleted_chunk g where g.set_id = t.id)
           > greatest(%(min_deleted)s, (select sum(s.chunks) / 10 from segment s where s.set_id = t.id)));

-- name: sets_to_compact
-- The sets of a base that searches read, or may read.
select id from chunk_set where base_id = %(base)s and state <> 'removing' order by id;

-- name: set_lexer_version
-- Note that the segments of a set were lexed by this version.
update segment set lexer_version = %(lexer_version)s where set_id = %(set)s;

-- name: list_deleted_numbers
-- The numbers of deleted chunks that are still in segments.
select no from deleted_chunk where set_id = %(set)s order by no;

-- name: has_overdue_deletions
-- Whether some were deleted longer ago than the maximum age.
select exists (select from deleted_chunk where set_id = %(set)s and deleted_at < clock_now() - %(max_age)s::interval);

-- name: read_all_postings
-- All postings of segments.
select id, ordinals, counts from segment where set_id = %(set)s and id = any (%(ids)s::bigint[]);

-- name: read_chunks_to_lex
-- The texts and vectors from which the segment of these chunks is built.
select c.no, c.item_id, i.index_title as title, c.headings, c.text, c.embedding::text as embedding
  from chunk c join item i on i.id = c.item_id
 where c.set_id = %(set)s and c.no = any (%(nos)s::bigint[]) order by c.no;

-- name: drop_segments
-- Delete segments that a merged one replaces.
delete from segment where set_id = %(set)s and id = any (%(segments)s::bigint[]) returning id;

-- name: forget_deleted
-- Forget deleted chunks that no segment contains any more.
delete from deleted_chunk where set_id = %(set)s and no = any (%(nos)s::bigint[]);

-- name: drop_set_chunks
-- Delete the next chunks of a set in the order of their numbers. Their numbers are not recorded as deleted: the segments go too.
with deleted as (
    delete from chunk c
     where c.set_id = %(set)s and c.no > %(after)s
       and c.no <= (select max(n.no) from (select b.no from chunk b where b.set_id = %(set)s and b.no > %(after)s
                                            order by b.no limit %(limit)s) n)
    returning c.no)
select count(*)::int as chunks, max(no) as last from deleted;

-- name: drop_set_segments
-- Delete some segments of a set.
delete from segment where set_id = %(set)s
   and id = any (array(select s.id from segment s where s.set_id = %(set)s order by s.id limit %(limit)s));

-- name: drop_set_deleted_numbers
-- Delete some numbers of deleted chunks of a set.
delete from deleted_chunk where set_id = %(set)s
   and no = any (array(select d.no from deleted_chunk d where d.set_id = %(set)s order by d.no limit %(limit)s));

-- name: effective_acl
-- The ACL that applies to an item: its own, an ancestor's or its base's.
select case when i.acl_from is null then b.acl else o.acl end
  from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
 where i.id = %(item)s;

-- name: chunk_numbers_of_item
-- The numbers of the chunks of an item's live version.
select c.no from item i join chunk c on c.set_id = %(set)s and c.item_id = i.id and c.version = i.live_version
 where i.id = %(item)s order by c.index;

-- name: is_in_scope
-- Whether an item is in scope.
select exists (
    select from item_searchable(%(base)s::uuid, %(principals)s::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                              %(condition)s::jsonpath, %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                              %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
     where i.id = %(item)s);

-- name: nearest_rank
-- The similarity of the nearest of these chunks to a vector, and its rank among all live chunks.
with best as materialized (
    select min(c.embedding <=> %(vector)s::halfvec) as distance from chunk c
     where c.set_id = %(set)s and c.no = any (%(nos)s::bigint[]))
select 1 + (select count(*) from chunk c
              join item i on i.id = c.item_id and i.live_version = c.version and i.status <> 'deleting'
             where c.set_id = %(set)s and c.embedding <=> %(vector)s::halfvec < best.distance)::int as rank,
       1 - best.distance as similarity
  from best where best.distance is not null;
