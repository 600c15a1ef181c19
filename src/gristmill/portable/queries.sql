-- What an archive has of a base. The columns are in the order of tables.py.

-- name: export_items
-- The items of a base, parents before their children.
with recursive below(id, depth) as (
    select i.id, 0 from item i where i.base_id = %(base)s and i.parent_id is null and i.status <> 'deleting'
    union all
    select c.id, b.depth + 1 from item c join below b on c.parent_id = b.id where c.status <> 'deleting')
select i.id::text, i.parent_id::text, i.type, i.title, i.status, i.error_code, i.error_message, to_json(i.warnings)::text,
       i.source::text, i.source_key, left(f.name, 64), i.body, i.size_bytes, i.wanted_version, i.live_version,
       i.attachments_version, encode(i.attachments_content, 'hex'), i.chunk_count, i.left_out::text, to_json(i.acl)::text,
       i.metadata::text, i.document::text, i.chunking::text, to_json(i.created_at) #>> '{}', to_json(i.updated_at) #>> '{}'
  from below b join item i on i.id = b.id left join blob f on f.hash = i.blob_hash
 order by b.depth, i.id;

-- name: export_contents
-- The contents of the live versions.
select encode(c.hash, 'hex'), c.characters, to_json(c.warnings)::text, c.document::text
  from content c
 where c.characters is not null and exists (
     select from item_version v join item i on i.id = v.item_id and i.live_version = v.version
      where v.content_hash = c.hash and i.base_id = %(base)s and i.status <> 'deleting')
 order by c.hash;

-- name: export_content_parts
-- The texts of these contents.
select encode(p.content_hash, 'hex'), p.start, p.text, p.page, p.boxes
  from content_part p
 where p.content_hash in (
     select v.content_hash from item_version v join item i on i.id = v.item_id and i.live_version = v.version
      where i.base_id = %(base)s and i.status <> 'deleting')
 order by p.content_hash, p.start;

-- name: export_attachments
-- The documents inside these contents.
select encode(a.content_hash, 'hex'), a.number, a.name, left(f.name, 64), a.size
  from attachment a join blob f on f.hash = a.blob_hash
 where a.content_hash in (
     select v.content_hash from item_version v join item i on i.id = v.item_id and i.live_version = v.version
      where i.base_id = %(base)s and i.status <> 'deleting')
 order by a.content_hash, a.number;

-- name: export_assets
-- The images and tables of these contents.
select encode(a.content_hash, 'hex'), encode(a.hash, 'hex'), a.number, a.kind, a.media_type, a.size, a.page, a.start, a."end",
       a.caption, a.inline, left(f.name, 64)
  from content_asset a left join blob f on f.hash = a.blob_hash
 where a.content_hash in (
     select v.content_hash from item_version v join item i on i.id = v.item_id and i.live_version = v.version
      where i.base_id = %(base)s and i.status <> 'deleting')
 order by a.content_hash, a.number, a.hash;

-- name: export_versions
-- The live versions.
select v.item_id::text, v.version, encode(v.content_hash, 'hex'), v.recipe, left(f.name, 64), v.validators::text
  from item i join item_version v on v.item_id = i.id and v.version = i.live_version left join blob f on f.hash = v.original
 where i.base_id = %(base)s and i.status <> 'deleting'
 order by v.item_id;

-- name: export_descriptions
-- The descriptions of images of the live versions; those that are still to be made are left out.
select a.item_id::text, a.version, encode(a.hash, 'hex'), a.analyst, a.text
  from item i join asset a on a.item_id = i.id and a.version = i.live_version
 where i.base_id = %(base)s and i.status <> 'deleting' and a.state = 'described'
 order by a.item_id, a.hash;

-- name: export_chunks
-- The chunks of the live versions, in the order that they were written.
select c.item_id::text, c.index, c.text, c.start, c."end", c.page, to_json(c.headings)::text, halfvec_send(c.embedding)
  from chunk c join item i on i.id = c.item_id and i.live_version = c.version
 where c.set_id = %(set)s and i.base_id = %(base)s and i.status <> 'deleting'
 order by c.no;

-- name: export_chunk_marks
-- What people decided about texts.
select m.item_id::text, m.text_hash::text, m.mark
  from item i join chunk_mark m on m.item_id = i.id
 where i.base_id = %(base)s and i.status <> 'deleting'
 order by m.item_id, m.text_hash;

-- name: export_exclusions
-- What is left out of containers.
select e.root_id::text, e.type, e.source_key, e.title
  from exclusion e join item i on i.id = e.root_id
 where e.base_id = %(base)s and i.status <> 'deleting'
 order by e.id;

-- name: export_originals
-- The bytes that the rows above name.
select left(f.name, 64) as digest, min(f.size) as size, min(f.name) as name
  from blob f
 where f.hash in (
     select i.blob_hash from item i where i.base_id = %(base)s and i.status <> 'deleting'
      union all
     select v.original from item_version v join item i on i.id = v.item_id and i.live_version = v.version
      where i.base_id = %(base)s and i.status <> 'deleting'
      union all
     select a.blob_hash from attachment a join item_version v on v.content_hash = a.content_hash
       join item i on i.id = v.item_id and i.live_version = v.version
      where i.base_id = %(base)s and i.status <> 'deleting'
      union all
     select a.blob_hash from content_asset a join item_version v on v.content_hash = a.content_hash
       join item i on i.id = v.item_id and i.live_version = v.version
      where i.base_id = %(base)s and i.status <> 'deleting')
 group by left(f.name, 64)
 order by digest;
