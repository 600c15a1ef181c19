-- Renewals of secrets that a tool replaces when they are used.

-- name: credentials
-- The sealed credentials of a connector.
select credentials from connector where id = %(id)s;

-- name: lock_credentials
-- The sealed credentials of a connector, which no one else changes until the transaction ends.
select credentials from connector where id = %(id)s for no key update;

-- name: begin_renewal
-- Lets one worker renew the secrets of a connector for a time; no row while another one may.
insert into connector_renewal as r (connector_id, lease, expires_at)
select c.id, %(lease)s, clock_now() + %(duration)s from connector c where c.id = %(connector)s
on conflict (connector_id) do update set lease = excluded.lease, expires_at = excluded.expires_at
 where r.expires_at <= clock_now()
returning lease;

-- name: end_renewal
-- The worker has renewed the secrets, or given up.
delete from connector_renewal where connector_id = %(connector)s and lease = %(lease)s;
