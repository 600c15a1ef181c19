-- name: begin_watch
-- Watches a folder if that is cheap; one that was added before begins again, and is wanted as before.
insert into folder_watch (item_id, wanted, state) values (%(id)s, null, 'waiting')
on conflict (item_id) do update set state = case when folder_watch.wanted is false then 'off' else 'waiting' end, reason_code = null,
       reason = null, owner = null, lease_until = null, changed_at = clock_now();

-- name: want_watch
-- Sets whether a folder is watched; null: if that is cheap.
insert into folder_watch (item_id, wanted, state) values (%(id)s, %(wanted)s, case when %(wanted)s::boolean is false then 'off' else 'waiting' end)
on conflict (item_id) do update set wanted = excluded.wanted, state = excluded.state, reason_code = null, reason = null,
       owner = null, lease_until = null, changed_at = clock_now();

-- name: find_watches
-- Whether folders are watched, and by whom.
select item_id, wanted, state, reason_code, reason from folder_watch where item_id = any (%(ids)s::uuid[]);

-- name: find_free_watches
-- Folders that should be watched, and that no worker watches.
select w.item_id, i.base_id, i.source, w.wanted, w.state, w.reason_code from folder_watch w join item i on i.id = w.item_id
 where w.state <> 'off' and (w.lease_until is null or w.lease_until < clock_now()) and i.status <> 'deleting'
   and w.item_id <> all (%(except)s::uuid[])
 order by w.item_id limit %(limit)s;

-- name: claim_watch
-- Gives the watch of a folder to a worker, unless another one has it.
update folder_watch set owner = %(owner)s, lease_until = clock_now() + %(lease)s::interval, state = 'watching',
       reason_code = null, reason = null, changed_at = clock_now()
 where item_id = %(id)s and state <> 'off' and (lease_until is null or lease_until < clock_now())
returning item_id;

-- name: renew_watches
-- Renews the leases of a worker; the folders that it still watches.
update folder_watch set lease_until = clock_now() + %(lease)s::interval
 where item_id = any (%(ids)s::uuid[]) and owner = %(owner)s and state = 'watching' returning item_id;

-- name: fence_watch
-- Proves that a worker has the watch of a folder, for the rest of the transaction.
select item_id from folder_watch where item_id = %(id)s and owner = %(owner)s and lease_until > clock_now() for no key update;

-- name: release_watches
-- A worker that stops frees its folders for others.
update folder_watch set owner = null, lease_until = null, state = 'waiting', changed_at = clock_now()
 where item_id = any (%(ids)s::uuid[]) and owner = %(owner)s;

-- name: refuse_watch
-- Records why a folder can't be watched here; another worker may try.
update folder_watch set state = 'unavailable', reason_code = %(code)s, reason = %(reason)s, changed_at = clock_now()
 where item_id = %(id)s and state <> 'off' and (lease_until is null or lease_until < clock_now())
   and (state, coalesce(reason_code, '')) is distinct from ('unavailable', %(code)s);
