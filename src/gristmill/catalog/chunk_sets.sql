-- name: find_chunk_sets
-- All sets of chunks of a base, the oldest first.
select * from chunk_set where base_id = %(base)s order by changed_at, id;

-- name: insert_chunk_set
-- A set of chunks that is to be built.
insert into chunk_set (base_id, state, embedder, embedder_identity, dimensions, chunking)
values (%(base)s, 'building', %(embedder)s, %(identity)s, %(dimensions)s, %(chunking)s)
returning *;

-- name: set_chunk_set_state
-- building | kept -> building | kept | removing.
update chunk_set set state = %(state)s, changed_at = clock_now() where id = %(id)s and state not in ('live', 'removing') returning id;

-- name: switch_chunk_set
-- building | kept -> live, and live -> kept: searches read the other set from now on, and its base has its embedder.
with old as (
    update chunk_set s
       set state = 'kept', changed_at = clock_now(), chunking = b.chunking
      from base b where b.id = %(base)s and s.id = b.chunk_set returning s.id),
switched as (
    update base b
       set chunk_set = s.id, embedder = s.embedder, embedder_identity = s.embedder_identity, dimensions = s.dimensions,
           chunking = s.chunking, switching_until = null, updated_at = clock_now()
      from chunk_set s, old where b.id = %(base)s and s.id = %(set)s returning b.id)
select id from switched;

-- name: mark_chunk_set_live
-- building | kept -> live, once the one before is not.
update chunk_set set state = 'live', changed_at = clock_now() where id = %(id)s;

-- name: drop_chunk_set
-- Removes a set of which nothing else is left.
delete from chunk_set where id = %(id)s and state = 'removing';

-- name: find_expired_sets
-- Sets that are kept for longer than a time, and no swap needs.
select s.* from chunk_set s join base b on b.id = s.base_id and b.status <> 'deleting'
 where s.state = 'kept' and s.changed_at < clock_now() - %(retention)s::interval
   and not exists (select from swap w where w.base_id = s.base_id and w.state in ('building', 'comparing', 'waiting')
                      and s.id in (w.set_id, w.previous_set))
 limit %(limit)s;

-- ── what a set lacks ────────────────────────────────────────────────────────────────────────────────────

-- name: mark_missing
-- Notes that the chunks of these items have changed, for the sets other than the live one.
insert into missing_item (set_id, item_id)
select s.id, i.id from item i join chunk_set s on s.base_id = i.base_id and s.state in ('building', 'kept')
 where i.id = any (%(items)s::uuid[]) order by 1, 2
on conflict do nothing;

-- name: mark_all_missing
-- Notes that a new set lacks everything.
insert into missing_item (set_id, item_id)
select %(set)s, i.id from item i
 where i.base_id = %(base)s and i.live_version is not null and i.status <> 'deleting' and not i.is_container;

-- name: count_missing
-- How many items a set lacks.
select count(*)::int from missing_item m join item i on i.id = m.item_id
 where m.set_id = %(set)s and i.status <> 'deleting' and i.live_version is not null;

-- name: next_missing
-- Items that a set lacks, with the content of their live versions.
select i.id, i.index_title as title, i.live_version as version, v.content_hash as content, i.chunking
  from missing_item m join item i on i.id = m.item_id and i.status <> 'deleting'
  join item_version v on v.item_id = i.id and v.version = i.live_version
 where m.set_id = %(set)s and (%(only)s::uuid[] is null or m.item_id = any (%(only)s::uuid[]))
 order by m.item_id limit %(limit)s;

-- name: lock_missing
-- Those of the items whose version is still live, locked until the transaction ends.
select i.id from item i join unnest(%(items)s::uuid[], %(versions)s::int[]) u(id, version)
    on i.id = u.id and i.live_version = u.version
 where i.status <> 'deleting' order by i.id for no key update of i;

-- name: forget_missing
-- Notes that a set has these items.
delete from missing_item where set_id = %(set)s and item_id = any (%(items)s::uuid[]);

-- ── swaps ───────────────────────────────────────────────────────────────────────────────────────────────

-- name: insert_swap
-- Begins the exchange of the chunks of a base.
insert into swap (base_id, set_id, previous_set, embedder, previous_embedder, gate, is_approved, is_revert, items)
values (%(base)s, %(set)s, %(previous_set)s, %(embedder)s, %(previous_embedder)s, %(gate)s, %(is_approved)s, %(is_revert)s, %(items)s)
returning *;

-- name: last_swap
-- The latest swap of a base.
select * from swap where base_id = %(base)s order by id desc limit 1;

-- name: find_swap
-- A swap.
select * from swap where id = %(id)s;

-- name: change_swap
-- Moves a swap from one of its states on; no row if it is in another one by now.
update swap set state = %(state)s, is_approved = is_approved or %(is_approved)s, report = coalesce(%(report)s::jsonb, report),
       error_code = %(code)s, error_message = %(message)s, updated_at = clock_now()
 where id = %(id)s and state = any (%(before)s::text[])
returning *;

-- name: count_embedded
-- Adds to the counts of a swap.
update swap set embedded = embedded + %(embedded)s, reused = reused + %(reused)s, tokens = tokens + %(tokens)s, updated_at = clock_now()
 where id = %(id)s;

-- name: find_unrefreshed_swap
-- The swap whose chunks answer, if the items don't show their counts yet.
select w.* from swap w join base b on b.id = w.base_id and b.chunk_set = w.set_id
 where w.base_id = %(base)s and w.state = 'switched' and not w.is_refreshed order by w.id desc limit 1;

-- name: mark_refreshed
-- Notes that the items show the counts of the chunks of this swap, or that they never will: later ones have taken over.
update swap set is_refreshed = true
 where base_id = %(base)s and state = 'switched' and not is_refreshed and (id <> %(id)s) = %(earlier)s;

-- name: hold_publications
-- Lets the documents of a base wait for another set of chunks.
update base set switching_until = clock_now() + %(time)s::interval where id = %(base)s;

-- name: next_items_to_refresh
-- Documents after a cursor that search reads, locked until the transaction ends.
select i.id from item i
 where i.base_id = %(base)s and i.id > %(after)s and i.live_version is not null and i.status <> 'deleting' and not i.is_container
 order by i.id limit %(limit)s for no key update of i;

-- name: refresh_items
-- Counts the chunks of documents again.
update item i set chunk_count = n.chunks
  from (select u.id, (select count(*)::int from chunk c join item o on o.id = u.id
                       where c.set_id = %(set)s and c.item_id = u.id and c.version = o.live_version) as chunks
          from unnest(%(items)s::uuid[]) u(id)) n
 where i.id = n.id and i.chunk_count <> n.chunks;

-- name: find_unswapped
-- Swaps that no job works on.
select w.id, w.base_id from swap w join base b on b.id = w.base_id and b.status <> 'deleting'
 where (w.state in ('building', 'comparing') or (w.state = 'switched' and not w.is_refreshed))
   and not exists (select from job j where j.kind = 'swap_embedder' and j.state <> 'dead' and j.lane = w.base_id::text)
   and (%(base)s::uuid is null or w.base_id = %(base)s)
 order by w.id limit %(limit)s;

-- name: find_unremoved_sets
-- Sets of chunks that are being removed without a job.
select s.id, s.base_id from chunk_set s join base b on b.id = s.base_id and b.status <> 'deleting'
 where s.state = 'removing'
   and not exists (select from job j where j.kind = 'remove_chunk_set' and j.state <> 'dead' and j.subject = s.id)
   and (%(base)s::uuid is null or s.base_id = %(base)s)
 order by s.id limit %(limit)s;

-- name: find_embedder_uses
-- Bases of an organisation with chunks of this embedder: that answer, are being built or are kept; oldest first.
select b.id as base_id, b.name as base_name, s.embedder_identity, s.state
  from base b join chunk_set s on s.base_id = b.id
 where b.org_id = %(org)s and b.status <> 'deleting' and s.embedder = %(name)s and s.state <> 'removing'
 order by b.id, s.id;
