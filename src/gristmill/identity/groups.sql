-- name: insert_group
-- Creates a group, unless its name is taken.
insert into user_group (org_id, name, source, external_id) values (%(org)s, %(name)s, %(source)s, %(external_id)s)
on conflict do nothing
returning id, org_id, name, source, external_id, 0 as member_count, created_at, updated_at;

-- name: change_group
-- Changes the name and the external id of a group.
update user_group g set name = %(name)s, external_id = %(external_id)s, source = %(source)s, updated_at = clock_now()
 where id = %(id)s and org_id = %(org)s
returning id, org_id, name, source, external_id,
          (select count(*) from group_member m where m.group_id = g.id)::int as member_count, created_at, updated_at;

-- name: find_group
-- One group.
select id, org_id, name, source, external_id, (select count(*) from group_member m where m.group_id = g.id)::int as member_count,
       created_at, updated_at
  from user_group g where id = %(id)s and org_id = %(org)s;

-- name: find_group_by
-- The group of this name or external id; what is null is not compared.
select id, org_id, name, source, external_id, (select count(*) from group_member m where m.group_id = g.id)::int as member_count,
       created_at, updated_at
  from user_group g
 where org_id = %(org)s and (%(name)s::text is null or lower(name) = lower(%(name)s))
   and (%(external_id)s::text is null or external_id = %(external_id)s)
   and num_nonnulls(%(name)s::text, %(external_id)s::text) > 0
 order by id limit 1;

-- name: list_groups
-- Groups of an organisation, oldest first, after a cursor; with text, those that have it in their name.
select id, org_id, name, source, external_id, (select count(*) from group_member m where m.group_id = g.id)::int as member_count,
       created_at, updated_at
  from user_group g
 where org_id = %(org)s and (%(after)s::uuid is null or id > %(after)s)
   and (%(text)s::text is null or strpos(lower(name), lower(%(text)s)) > 0)
 order by id limit %(limit)s;

-- name: groups_page
-- Groups of an organisation, oldest first, from a position; SCIM counts positions.
select id, org_id, name, source, external_id, (select count(*) from group_member m where m.group_id = g.id)::int as member_count,
       created_at, updated_at
  from user_group g where org_id = %(org)s order by id offset %(offset)s limit %(limit)s;

-- name: count_groups
-- The number of groups of an organisation.
select count(*) from user_group where org_id = %(org)s;

-- name: groups_of
-- Those of these groups that belong to the organisation.
select id, org_id, name, source, external_id, (select count(*) from group_member m where m.group_id = g.id)::int as member_count,
       created_at, updated_at
  from user_group g where org_id = %(org)s and id = any (%(ids)s::uuid[]) order by id;

-- name: direct_groups
-- The groups that have this user as a direct member.
select g.id, g.org_id, g.name, g.source, g.external_id, 0 as member_count, g.created_at, g.updated_at
  from group_member m join user_group g on g.id = m.group_id where m.user_id = %(user)s order by lower(g.name);

-- name: delete_group
-- Deletes a group and, by foreign key, its memberships. Its members stay.
delete from user_group where id = %(id)s and org_id = %(org)s returning id;

-- name: list_members
-- Members of a group after a cursor: users and groups, by id.
select coalesce(m.user_id, m.child_id) as id, case when m.user_id is null then 'group' else 'user' end as type,
       coalesce(u.name, g.name) as name, u.email, coalesce(u.active, true) as active, m.source
  from group_member m left join user_account u on u.id = m.user_id left join user_group g on g.id = m.child_id
 where m.group_id = %(group)s and (%(after)s::uuid is null or coalesce(m.user_id, m.child_id) > %(after)s)
 order by coalesce(m.user_id, m.child_id) limit %(limit)s;

-- name: add_user_members
-- Makes users of the organisation members of a group; the number of new ones.
insert into group_member (group_id, user_id, source)
select %(group)s, u.id, %(source)s from user_account u where u.org_id = %(org)s and u.id = any (%(ids)s::uuid[])
on conflict do nothing;

-- name: add_group_members
-- Makes groups of the organisation members of a group; the number of new ones.
insert into group_member (group_id, child_id, source)
select %(group)s, g.id, %(source)s from user_group g where g.org_id = %(org)s and g.id = any (%(ids)s::uuid[])
on conflict do nothing;

-- name: remove_members
-- Removes users and groups from a group.
delete from group_member where group_id = %(group)s and (user_id = any (%(ids)s::uuid[]) or child_id = any (%(ids)s::uuid[]));

-- name: keep_members
-- Removes all members of a group but these.
delete from group_member
 where group_id = %(group)s and coalesce(user_id, child_id) <> all (%(ids)s::uuid[]);

-- name: would_be_cycle
-- Whether one of these groups is the group itself or contains it, at any depth.
with recursive above(id) as (
    select %(group)s::uuid
    union
    select m.group_id from above a join group_member m on m.child_id = a.id)
select exists (select from above where id = any (%(ids)s::uuid[]));

-- name: leave_groups
-- Ends the memberships of a user that came from one source, except for those in these groups.
delete from group_member where user_id = %(user)s and source = %(source)s and group_id <> all (%(groups)s::uuid[]);

-- name: join_groups
-- Makes a user a member of these groups.
insert into group_member (group_id, user_id, source)
select g, %(user)s, %(source)s from unnest(%(groups)s::uuid[]) g on conflict do nothing;

-- name: path_to_group
-- The names of groups through which a user belongs to a group, from the nearest on; the shortest way.
with recursive above(id, path) as (
    select m.group_id, array[m.group_id] from group_member m where m.user_id = %(user)s
    union all
    select m.group_id, a.path || m.group_id from above a join group_member m on m.child_id = a.id
     where m.group_id <> all (a.path) and cardinality(a.path) < 20),
shortest as (select path from above where id = %(group)s order by cardinality(path) limit 1)
select g.name from shortest, unnest(path) with ordinality p(id, position) join user_group g on g.id = p.id order by p.position;
