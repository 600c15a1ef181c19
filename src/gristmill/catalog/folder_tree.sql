-- name: find_listed_children
-- What listings have filed in containers.
select i.id, i.parent_id, i.type, i.source_key, i.fingerprint, i.status, i.error_code,
       i.expanded_version < i.wanted_version as is_being_listed
  from item i
 where i.parent_id = any (%(parents)s::uuid[]) and i.listed_version > 0 and i.status <> 'deleting';

-- name: find_listed_by_key
-- Which of these paths are filed below their parents, by listings.
select i.id, i.parent_id, i.type, i.source_key, i.fingerprint, i.status, i.error_code,
       i.expanded_version < i.wanted_version as is_being_listed
  from unnest(%(parents)s::uuid[], %(keys)s::text[]) u(parent_id, source_key)
  join item i on i.base_id = %(base)s and i.parent_id = u.parent_id and i.type in ('file', 'directory', 'url')
             and md5(i.source_key) = md5(u.source_key) and i.source_key = u.source_key
             and i.listed_version > 0 and i.status <> 'deleting';

-- name: find_folders
-- Folders of these paths below their parents, with their versions.
select i.id, i.parent_id, i.source_key, i.wanted_version, i.expanded_version
  from unnest(%(parents)s::uuid[], %(keys)s::text[]) u(parent_id, source_key)
  join item i on i.base_id = %(base)s and i.parent_id = u.parent_id and i.type = 'directory'
             and md5(i.source_key) = md5(u.source_key) and i.source_key = u.source_key and i.status <> 'deleting';

-- name: find_by_fingerprint
-- Files of an added folder with these fingerprints, found by its listings.
select i.id, i.fingerprint, i.source_key as path from item i
 where i.base_id = %(base)s and i.fingerprint = any (%(fingerprints)s::text[]) and i.listed_version > 0 and i.status <> 'deleting'
   and exists (with recursive up(id, parent_id) as (
                   select p.id, p.parent_id from item p where p.id = i.parent_id
                   union all
                   select p.id, p.parent_id from up u join item p on p.id = u.parent_id)
               select from up where up.id = %(root)s);

-- name: move_items
-- Files that were moved: another place and name, the same content.
-- A title that someone gave a file stays. Returns which have another title now.
update item i
   set parent_id = u.parent_id,
       title = case when i.title = regexp_replace(i.source_key, '^.*/', '') then u.title else i.title end, source_key = u.path, source = jsonb_set(i.source, '{path}', to_jsonb(u.path)),
       listed_version = u.listed_version, updated_at = clock_now()
  from unnest(%(ids)s::uuid[], %(parents)s::uuid[], %(titles)s::text[], %(paths)s::text[], %(fingerprints)s::text[],
              %(listed_versions)s::int[]) u(id, parent_id, title, path, fingerprint, listed_version),
       item old
 where i.id = u.id and old.id = i.id and i.status <> 'deleting' and i.fingerprint = u.fingerprint
returning i.id, old.parent_id as old_parent, i.title <> old.title as is_renamed;

-- name: inherit_acls
-- Items without an access list of their own inherit that of the container they are in now.
select item_set_acl(i.id, null) from item i where i.id = any (%(ids)s::uuid[]) and i.acl is null;

-- name: find_folder
-- A folder of the tree, unless it is being deleted.
select i.id, i.parent_id, i.source_key, i.wanted_version, i.expanded_version
  from item i where i.id = %(id)s and i.type = 'directory' and i.status <> 'deleting';

-- name: find_any_fingerprint
-- The fingerprint of any file below a folder.
select i.fingerprint from item_subtree(array[%(id)s::uuid]) s join item i on i.id = s.id
 where i.fingerprint is not null and i.status <> 'deleting' limit 1;
