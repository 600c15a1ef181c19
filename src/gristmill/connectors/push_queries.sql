-- Calls by which tools report changes.

-- name: save_push_secret
-- Sets up pushes of a connector, or gives it another secret; a run that is due stays due.
insert into connector_push (connector_id, secret) values (%(connector)s, %(secret)s)
on conflict (connector_id) do update set secret = excluded.secret, created_at = clock_now()
returning connector_id, secret, due, created_at, last_push_at;

-- name: delete_push
-- Ends pushes of a connector.
delete from connector_push where connector_id = %(connector)s returning connector_id;

-- name: push
-- How a connector's tool pushes, if it may.
select connector_id, secret, due, created_at, last_push_at from connector_push where connector_id = %(connector)s;

-- name: lock_push
-- Locks the row until the transaction ends; whether a run is due.
select due from connector_push where connector_id = %(connector)s for update;

-- name: set_push_due
-- A run has to begin, or has begun.
update connector_push set due = %(due)s, last_push_at = case when %(due)s then clock_now() else last_push_at end
 where connector_id = %(connector)s;

-- name: pause_before_push_run
-- How long the next run has to wait, so that runs begin at least `pause` apart.
select greatest(max(r.started_at) + %(pause)s::interval - clock_now(), interval '0') from connector_run r
 where r.connector_id = %(connector)s and r.trigger = 'push' and r.started_at > clock_now() - %(pause)s::interval;

-- name: forgotten_pushes
-- Connectors that a run is due for, and that have no job for it.
select p.connector_id from connector_push p
 where p.due and not exists (select from job j where j.key = 'connector:' || p.connector_id || ':sync' and j.state <> 'dead')
 order by p.connector_id limit %(limit)s;

-- name: old_sealed_push_secrets
-- Secrets of pushes that are not sealed by the current key, in the order of their ids, locked.
select connector_id as id, secret as sealed from connector_push
 where substring(secret for 11) <> %(prefix)s and (%(after)s::uuid is null or connector_id > %(after)s)
 order by connector_id limit %(limit)s for update;

-- name: replace_sealed_push_secret
-- Writes a secret of pushes that was sealed again.
update connector_push set secret = %(sealed)s where connector_id = %(id)s;
