-- Groups of tools, and who belongs to them.

-- name: save_groups
-- Notes when groups were asked for, in the order of their keys; what is known of those that were not asked for later.
-- A name that is only the key does not replace a known one.
insert into connector_group as g (org_id, connector_id, key, name, as_of)
select c.org_id, c.id, u.key, u.name, %(asked_at)s
  from connector c cross join unnest(%(keys)s::text[], %(names)s::text[]) u(key, name)
 where c.id = %(connector)s order by u.key collate "C"
on conflict (connector_id, key) do update
   set name = case when excluded.name = excluded.key then g.name else excluded.name end, as_of = excluded.as_of
 where g.as_of <= excluded.as_of
returning g.id, g.key, g.digest;

-- name: set_group_state
-- Whether all members of a group are known, and the hash of who they are.
update connector_group set complete = %(complete)s, digest = %(digest)s where id = %(group)s;

-- name: replace_group_members
-- Gives a group exactly these members; only rows that differ are written.
with new as materialized (
    select distinct true as by_email, lower(e) as member from unnest(%(emails)s::text[]) e
    union all select distinct false, u from unnest(%(users)s::text[]) u),
known as materialized (
    select m.email is not null as by_email, coalesce(m.email, m.user_id) as member
      from connector_group_member m where m.group_id = %(group)s),
gone as (
    delete from connector_group_member m
     where m.group_id = %(group)s
       and not exists (select from new n where n.by_email = (m.email is not null) and n.member = coalesce(m.email, m.user_id)))
insert into connector_group_member (group_id, email, user_id)
select %(group)s, case when n.by_email then n.member end, case when not n.by_email then n.member end from new n
 where not exists (select from known k where k.by_email = n.by_email and k.member = n.member);

-- name: unresolved_groups
-- The names of groups that audiences name and whose members could not be found out.
select g.name from connector_group g
 where g.connector_id = %(connector)s and not g.complete
   and exists (select from connector_audience a where a.connector_id = g.connector_id and g.key = any (a.tool_groups))
 order by g.name;

-- name: groups
-- Groups of a connector's tool, by id, after a cursor.
select g.id, g.key, g.name, g.complete, g.as_of,
       (select count(*)::int from connector_group_member m where m.group_id = g.id) as member_count
  from connector_group g
 where g.connector_id = %(connector)s and (%(after)s::uuid is null or g.id > %(after)s)
 order by g.id limit %(limit)s;

-- name: lock_unused_groups
-- Groups that no audience names any more, unless a base keeps records that name them, locked in the order of their keys.
select g.id from connector_group g
 where g.connector_id = %(connector)s
   and g.key not in (select unnest(a.tool_groups) from connector_audience a where a.connector_id = %(connector)s)
   and not exists (select from base b where b.id = any (g.kept_for))
 order by g.key for update of g;

-- name: delete_unused_groups
-- Deletes those of the locked groups that no audience names now: one may have been saved while they were locked.
delete from connector_group g
 where g.id = any (%(ids)s::uuid[])
   and g.key not in (select unnest(a.tool_groups) from connector_audience a where a.connector_id = %(connector)s);

-- name: keep_groups
-- These bases keep records of a connector that no longer feeds them.
update connector_group set kept_for = array(select unnest(kept_for) union select unnest(%(bases)s::uuid[]))
 where connector_id = %(connector)s and not kept_for @> %(bases)s::uuid[];

-- name: map_group_members
-- Turns accounts that are mapped into members by their address: the mappings go with the connector.
insert into connector_group_member (group_id, email)
select distinct m.group_id, i.email
  from connector_group g join connector_group_member m on m.group_id = g.id and m.user_id is not null
  join connector_identity i on i.connector_id = g.connector_id and i.user_id = m.user_id and i.email is not null
 where g.connector_id = %(connector)s and g.kept_for <> '{}'
on conflict do nothing;

-- name: drop_group_accounts
-- Removes the members that are accounts: without the connector they can't be mapped.
delete from connector_group_member m using connector_group g
 where g.id = m.group_id and g.connector_id = %(connector)s and g.kept_for <> '{}' and m.user_id is not null;

-- name: release_groups
-- Keeps groups that records of bases name, as they are, when their connector is deleted.
update connector_group set connector_id = null where connector_id = %(connector)s and kept_for <> '{}';

-- name: delete_released_groups
-- Deletes groups of deleted connectors once no base keeps records that name them; how many.
with gone as (
    delete from connector_group where id in (
        select g.id from connector_group g
         where g.connector_id is null and not exists (select from base b where b.id = any (g.kept_for)) limit %(limit)s)
    returning id)
select count(*)::int from gone;
