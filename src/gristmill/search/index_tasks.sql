-- name: open_puts
-- Note chunks of versions that the engine has to get, by their first and last numbers.
insert into index_task (base_id, kind, item_id, version, first_no, last_no)
select %(base)s, 'put', u.item, u.version, u.first_no, u.last_no
  from unnest(%(items)s::uuid[], %(versions)s::int[], %(first_nos)s::bigint[], %(last_nos)s::bigint[])
       u(item, version, first_no, last_no)
returning id, item_id, version, first_no, last_no;

-- name: add_languages
-- Note languages of a base's texts.
insert into index_language (base_id, language)
select %(base)s, u.language from unnest(%(languages)s::text[]) u(language) order by 2
on conflict do nothing;

-- name: languages
-- The languages of a base's texts.
select language from index_language where base_id = %(base)s order by 1;

-- name: sample_texts
-- The beginnings of chunks of a base, evenly from the first to the last.
select t.text
  from (select min(no) as first, max(no) as last from chunk where set_id = %(set)s) r,
       generate_series(0, %(size)s::int - 1) n,
       lateral (select left(c.text, 1000) as text from chunk c
                 where c.set_id = %(set)s and c.no >= r.first + n * (r.last - r.first) / %(size)s::int
                 order by c.no limit 1) t;

-- name: close_tasks
-- Delete tasks that are done.
delete from index_task where id = any (%(ids)s::bigint[]);

-- name: puts_of_version
-- The chunks of a version that the engine may lack.
select id, item_id, version, first_no, last_no from index_task
 where item_id = %(item)s and version = %(version)s and kind = 'put' order by id;

-- name: unindexed_versions
-- Those of the versions of which the engine may lack chunks.
select distinct t.item_id from unnest(%(items)s::uuid[], %(versions)s::int[]) u(item, version)
  join index_task t on t.item_id = u.item and t.version = u.version and t.kind = 'put';

-- name: forget_puts
-- Forget the chunks of an item's versions that were discarded: of one version, or of all that are not live.
delete from index_task t using item i
 where t.item_id = %(item)s and i.id = t.item_id and t.kind = 'put'
   and (t.version = %(version)s::int or (%(version)s::int is null and t.version is distinct from i.live_version));

-- name: forget_stale_puts
-- Forget chunks of versions that are neither live nor wanted any more.
delete from index_task t using item i
 where t.base_id = %(base)s and t.kind = 'put' and i.id = t.item_id
   and t.version <> i.wanted_version and t.version is distinct from i.live_version;

-- name: chunks_of_put
-- The chunks of a version in a range of numbers.
select c.no, c.item_id, i.index_title as title, c.headings, c.text, c.embedding::text as embedding
  from item i join base b on b.id = i.base_id join chunk c on c.set_id = b.chunk_set and c.item_id = i.id
 where i.id = %(item)s and c.version = %(version)s
   and c.no between %(first_no)s and %(last_no)s
 order by c.no;

-- name: labels
-- What points of items are filtered by: the access list that applies, the items above, type and metadata.
select i.id, i.acl_from is null as is_base_list, o.acl, i.type, i.metadata,
       array(with recursive up(id, parent_id) as (
                 select p.id, p.parent_id from item p where p.id = i.parent_id
                 union all
                 select p.id, p.parent_id from item p join up on p.id = up.parent_id)
             select u.id from up u) as ancestors
  from item i left join item o on o.id = i.acl_from
 where i.id = any (%(items)s::uuid[]);

-- name: bases_with_tasks
-- Bases with something to do now: not the chunks of versions that are being made, and not the labels that wait for them.
select distinct t.base_id from index_task t join base b on b.id = t.base_id
 where b.status <> 'deleting' and 'opensearch' in (b.index_kind, b.index_fill)
   and (t.kind = 'remove'
        or (t.kind = 'put' and exists (select from item i where i.id = t.item_id and i.live_version = t.version))
        or (t.kind = 'relabel' and not exists (
                select from index_task p join item i on i.id = p.item_id
                 where p.item_id = t.item_id and p.kind = 'put' and p.version in (i.wanted_version, i.live_version))))
 limit %(limit)s;

-- name: removals
-- The tasks that say that chunks of a base were deleted.
select id from index_task where base_id = %(base)s and kind = 'remove';

-- name: numbers_to_remove
-- Numbers of deleted chunks.
select no from deleted_chunk where set_id = %(set)s order by no limit %(limit)s;

-- name: relabels
-- Items whose labels have changed, except those whose chunks are being put: those would be put with the old labels.
select t.id, t.item_id from index_task t
 where t.base_id = %(base)s and t.kind = 'relabel'
   and not exists (select from index_task p join item i on i.id = p.item_id
                    where p.item_id = t.item_id and p.kind = 'put' and p.version in (i.wanted_version, i.live_version))
 order by t.id limit %(limit)s;

-- name: live_puts
-- Chunks of live versions that the engine may lack.
select t.id, t.item_id, t.version, t.first_no, t.last_no from index_task t
  join item i on i.id = t.item_id and i.live_version = t.version
 where t.base_id = %(base)s and t.kind = 'put'
 order by t.id limit %(limit)s;

-- name: items_with_tasks
-- Live items that the engine may not find, or not for everyone who may see them; of the oldest tasks, so that the cost is bounded.
select t.item_id
  from (select o.item_id, o.kind, o.version from index_task o
         where o.base_id = %(base)s and o.kind in ('put', 'relabel') order by o.kind, o.id limit 10 * %(limit)s) t
  join item i on i.id = t.item_id and i.live_version is not null and (t.kind = 'relabel' or i.live_version = t.version)
 group by t.item_id limit %(limit)s;

-- name: recently_published
-- Live versions of items that changed lately, newest change first: a search compares those of its beginning with those of its end.
select i.id, i.live_version as version from item i
 where i.base_id = %(base)s and i.updated_at > %(since)s and i.live_version is not null
 order by i.updated_at desc limit %(limit)s;

-- name: clock
-- The time by the clock of the database.
select clock_now();

-- name: gate_chunks
-- The visible ones of these chunks, with their items.
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
select c.id, c.no, c.item_id
  from candidate c join searchable i on i.id = c.item_id and i.live_version = c.version;

-- name: chunks_of_items
-- The visible chunks of items, for an exact search.
select c.no, c.item_id, i.index_title as title, c.headings, c.text
  from item_searchable(%(base)s::uuid, %(principals)s::text[], %(types)s::text[], %(under)s::uuid[], %(metadata)s::jsonb,
                     %(condition)s::jsonpath, %(created_after)s::timestamptz, %(created_before)s::timestamptz,
                     %(updated_after)s::timestamptz, %(updated_before)s::timestamptz) i
  join chunk c on c.set_id = %(set)s and c.item_id = i.id and c.version = i.live_version
 where i.id = any (%(items)s::uuid[])
   and not exists (select from chunk_mark m where m.item_id = c.item_id and m.text_hash = c.text_hash and m.mark = 'disabled')
 order by c.no limit %(limit)s;

-- name: existing_numbers
-- Those of the numbers that are chunks of a base.
select no from chunk where set_id = (select b.chunk_set from base b where b.id = %(base)s) and no = any (%(nos)s::bigint[]);

-- name: last_number
-- The highest number of a chunk of a base.
select max(no) from chunk where set_id = (select b.chunk_set from base b where b.id = %(base)s);

-- name: open_missing_puts
-- Note that the engine has to get those live chunks in a range of numbers that it does not have, unless that is noted already.
insert into index_task (base_id, kind, item_id, version, first_no, last_no)
select %(base)s, 'put', c.item_id, c.version, min(c.no), max(c.no)
  from chunk c join item i on i.id = c.item_id and i.live_version = c.version and i.status <> 'deleting'
   and i.updated_at < clock_now() - interval '1 minute' -- not one that was published since the engine was read
 where c.set_id = (select b.chunk_set from base b where b.id = %(base)s)
   and c.no > %(after)s and c.no <= %(until)s and c.no <> all (%(nos)s::bigint[])
   and not exists (select from index_task t where t.item_id = c.item_id and t.kind = 'put' and t.version = c.version
                      and c.no between t.first_no and t.last_no)
 group by c.item_id, c.version
returning last_no;

-- name: open_all_puts
-- Note that the engine has to get all chunks, or those of live versions, of the next items after one, in portions.
with items as (
    select distinct c.item_id from chunk c where c.set_id = (select b.chunk_set from base b where b.id = %(base)s) and c.item_id > %(after)s
     order by 1 limit %(limit)s),
portions as (
    select c.item_id, c.version, c.no, row_number() over (partition by c.item_id, c.version order by c.no) / 500 as portion
      from items i join chunk c on c.set_id = (select b.chunk_set from base b where b.id = %(base)s) and c.item_id = i.item_id
      join item n on n.id = c.item_id and n.status <> 'deleting' and (n.live_version = c.version or not %(only_live)s)),
opened as (
    insert into index_task (base_id, kind, item_id, version, first_no, last_no)
    select %(base)s, 'put', p.item_id, p.version, min(p.no), max(p.no) from portions p
     group by p.item_id, p.version, p.portion)
select item_id from items order by 1 desc limit 1;

-- name: has_live_puts
-- Whether chunks of live versions wait for the engine.
select exists (select from index_task t join item i on i.id = t.item_id and i.live_version = t.version
                where t.base_id = %(base)s and t.kind = 'put');

-- name: next_chunks
-- The next chunks of a base, up to a number, to be lexed again.
select c.no, c.item_id, i.index_title as title, c.headings, c.text, c.embedding::text as embedding
  from chunk c join item i on i.id = c.item_id
 where c.set_id = (select b.chunk_set from base b where b.id = %(base)s) and c.no > %(after)s and c.no <= %(until)s
 order by c.no limit %(limit)s;

-- name: forget_base
-- Forget the tasks and languages of a base that has left the engine.
with gone as (delete from index_task where base_id = %(base)s)
delete from index_language where base_id = %(base)s;

-- name: queue_drop
-- Note that a base is gone, and forget its other tasks.
with gone as (delete from index_task where base_id = %(base)s and kind <> 'drop')
insert into index_task (base_id, kind) values (%(base)s, 'drop');

-- name: drops
-- Bases that are gone, and the tasks of those gone for long.
select id, base_id, created_at < clock_now() - interval '1 day' as is_old from index_task where kind = 'drop' order by id;

-- name: task_counts
-- How many tasks are open, by kind, and the age of the oldest in seconds.
select kind, count(*)::int as tasks, extract(epoch from clock_now() - min(created_at))::float8 as age
  from index_task where kind <> 'drop' group by kind;

-- name: bases_in_engine
-- Bases that are indexed in an engine, after a cursor.
select id from base where 'opensearch' in (index_kind, index_fill) and status <> 'deleting' and id > %(after)s order by id limit %(limit)s;
