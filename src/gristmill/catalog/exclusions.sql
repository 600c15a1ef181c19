-- name: exclude_items
-- Remembers that people deleted items which listings or connector runs had found, so that these leave them out from now on.
with recursive up(start, id, parent_id, listed_version, is_container) as (
    select i.id, p.id, p.parent_id, p.listed_version, p.is_container
      from item i join item p on p.id = i.parent_id
     where i.id = any (%(ids)s::uuid[]) and (i.listed_version > 0 or i.type = 'record') and p.is_container
    union all
    select u.start, p.id, p.parent_id, p.listed_version, p.is_container
      from up u join item p on p.id = u.parent_id where u.listed_version > 0)
insert into exclusion (base_id, root_id, type, source_key, title, fingerprint)
select i.base_id, u.id, i.type, i.source_key, i.title, i.fingerprint
  from up u join item i on i.id = u.start where u.listed_version = 0 and u.is_container
on conflict do nothing;

-- name: find_excluded
-- Which of these sources are left out of a container that people added, by their positions, from 1.
select u.n::int as place, e.fingerprint from unnest(%(types)s::text[], %(keys)s::text[]) with ordinality u(type, source_key, n)
  join exclusion e on e.root_id = %(root)s and e.type = u.type and md5(e.source_key) = md5(u.source_key)
                  and e.source_key = u.source_key;

-- name: find_excluded_files
-- Files with these fingerprints that are left out of a container that people added.
select id, fingerprint, source_key as path from exclusion
 where root_id = %(root)s and type = 'file' and fingerprint = any (%(fingerprints)s::text[]);

-- name: move_exclusions
-- Files that are left out were moved, or changed where they are.
update exclusion e set source_key = u.path, title = u.title, fingerprint = u.fingerprint
  from unnest(%(ids)s::uuid[], %(paths)s::text[], %(titles)s::text[], %(fingerprints)s::text[]) u(id, path, title, fingerprint)
 where e.id = u.id and not exists (select from exclusion o where o.root_id = e.root_id and o.type = e.type
                                      and md5(o.source_key) = md5(u.path) and o.id <> e.id);

-- name: note_excluded_changes
-- Files that are left out have these fingerprints now.
update exclusion e set fingerprint = u.fingerprint
  from unnest(%(paths)s::text[], %(fingerprints)s::text[]) u(path, fingerprint)
 where e.root_id = %(root)s and e.type = 'file' and md5(e.source_key) = md5(u.path) and e.source_key = u.path
   and e.fingerprint is distinct from u.fingerprint;

-- name: rename_excluded_records
-- Records that are left out of a container have other ids in their tool now.
update exclusion e set source_key = u.new_key
  from unnest(%(old_keys)s::text[], %(new_keys)s::text[]) u(old_key, new_key)
 where e.root_id = %(container)s and e.type = 'record' and md5(e.source_key) = md5(u.old_key) and e.source_key = u.old_key
   and not exists (select from exclusion o where o.root_id = e.root_id and o.type = e.type and md5(o.source_key) = md5(u.new_key));

-- name: list_exclusions
-- What is left out of the containers of a base, or of one of them, after a cursor, the oldest first.
select id, base_id, root_id, type, source_key, title, created_at from exclusion
 where base_id = %(base)s and (%(container)s::uuid is null or root_id = %(container)s)
   and (%(after)s::uuid is null or id > %(after)s) order by id limit %(limit)s;

-- name: remove_exclusions
-- Forgets exclusions of a base: these, or all.
delete from exclusion where base_id = %(base)s and (%(ids)s::uuid[] is null or id = any (%(ids)s::uuid[]))
returning id, base_id, root_id, type, source_key, title, created_at;

-- name: remove_exclusions_by_source
-- Forgets exclusions of sources that people add again.
delete from exclusion e using unnest(%(types)s::text[], %(keys)s::text[]) u(type, source_key)
 where e.base_id = %(base)s and e.type = u.type and e.source_key = u.source_key;

-- name: top_container
-- The container that people added, above a container or itself.
with recursive up(id, parent_id, listed_version) as (
    select id, parent_id, listed_version from item where id = %(id)s
    union all
    select p.id, p.parent_id, p.listed_version from up u join item p on p.id = u.parent_id where u.listed_version > 0)
select id from up where listed_version = 0;
