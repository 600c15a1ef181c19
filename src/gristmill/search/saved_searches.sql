-- name: insert_saved_search
-- Stores a search, unless its owner has one of that name.
insert into saved_search (org_id, owner, key_id, name, request)
values (%(org)s, %(owner)s, %(key)s, %(name)s, %(request)s)
on conflict do nothing
returning id, name, request, created_at, updated_at;

-- name: count_saved_searches
-- How many searches an owner has stored.
select count(*) from saved_search where org_id = %(org)s and owner = %(owner)s;

-- name: list_saved_searches
-- The searches of an owner by name, after a cursor.
select id, name, request, created_at, updated_at
  from saved_search s
 where s.org_id = %(org)s and s.owner = %(owner)s
   and (%(after)s::uuid is null
        or (lower(s.name), s.id) > (select lower(c.name), c.id from saved_search c
                                     where c.id = %(after)s and c.org_id = %(org)s and c.owner = %(owner)s))
 order by lower(s.name), s.id limit %(limit)s;

-- name: find_saved_search
-- One search of an owner.
select id, name, request, created_at, updated_at
  from saved_search where id = %(id)s and org_id = %(org)s and owner = %(owner)s;

-- name: lock_saved_search
-- One search of an owner, locked until the transaction ends.
select id, name, request, created_at, updated_at
  from saved_search where id = %(id)s and org_id = %(org)s and owner = %(owner)s for no key update;

-- name: update_saved_search
-- Changes a search, unless its owner has another one of that name.
update saved_search s
   set name = %(name)s, request = %(request)s, updated_at = clock_now()
 where s.id = %(id)s and s.org_id = %(org)s and s.owner = %(owner)s
   and not exists (select from saved_search o
                    where o.org_id = %(org)s and o.owner = %(owner)s and lower(o.name) = lower(%(name)s) and o.id <> s.id)
returning id, name, request, created_at, updated_at;

-- name: delete_saved_search
-- Deletes a search of an owner.
delete from saved_search where id = %(id)s and org_id = %(org)s and owner = %(owner)s returning id;
