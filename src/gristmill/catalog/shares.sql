-- name: list_shares
-- The entries of a base's access list with what they may do; null: whoever an entry names has their own role.
select e.principal, s.role
  from base b cross join unnest(b.acl) with ordinality e(principal, position)
  left join base_share s on s.base_id = b.id and s.principal = e.principal
 where b.id = %(base)s order by e.position;

-- name: add_to_acl
-- Adds an entry to the access list of a base, unless it is there.
update base set acl = acl || %(principal)s::text, updated_at = clock_now()
 where id = %(base)s and %(principal)s <> all (acl);

-- name: remove_from_acl
-- Removes an entry from the access list of a base.
update base set acl = array_remove(acl, %(principal)s::text), updated_at = clock_now()
 where id = %(base)s and %(principal)s = any (acl);

-- name: set_share
-- Says what an entry may do.
insert into base_share (base_id, principal, role) values (%(base)s, %(principal)s, %(role)s)
on conflict (base_id, principal) do update set role = excluded.role;

-- name: prune_shares
-- Deletes the shares of a base whose entries are not in its access list any more.
delete from base_share s using base b where b.id = s.base_id and s.base_id = %(base)s and s.principal <> all (b.acl);

-- name: base_rank
-- The highest rank that entries of a base's list give these principals: reader 1, editor 2, owner 3; null if none names them.
select max(case coalesce(s.role, %(own)s) when 'owner' then 3 when 'editor' then 2 else 1 end)
  from base b cross join unnest(b.acl) e(principal)
  left join base_share s on s.base_id = b.id and s.principal = e.principal
 where b.id = %(base)s and e.principal = any (%(principals)s::text[]);

-- name: applied_list
-- The access list that applies to an item, and the item that it belongs to; null for the base's.
select i.base_id, i.acl_from, case when i.acl_from is null then b.acl else o.acl end as acl
  from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
 where i.id = %(item)s and b.org_id = %(org)s and i.status <> 'deleting' and b.status <> 'deleting';
