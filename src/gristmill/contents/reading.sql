-- name: live_parts_between
-- Parts of the content of the live version: the one that holds a character, and those that begin before another.
select p.start, p.text, p.page from item i
  join item_version v on v.item_id = i.id and v.version = i.live_version
  join content_part p on p.content_hash = v.content_hash
   and p.start >= coalesce((select max(f.start) from content_part f where f.content_hash = v.content_hash and f.start <= %(first)s), 0)
   and p.start < %(last)s
 where i.id = %(id)s
 order by p.start limit %(limit)s;

-- name: live_pages
-- Where the text of each page, slide or sheet of the live version begins, and how, from a page on.
select distinct on (p.page) p.page, p.start, left(p.text, %(length)s::int) as opening from item i
  join item_version v on v.item_id = i.id and v.version = i.live_version
  join content_part p on p.content_hash = v.content_hash
 where i.id = %(id)s and p.page >= %(page)s
 order by p.page, p.start limit %(limit)s;

-- name: live_images_between
-- The images between two characters of the live version, with what is known of them; without an end, all from a character on.
select c.hash, c.start, c.page, coalesce(nullif(c.caption, ''), a.text, '') as text
  from item i
  join item_version v on v.item_id = i.id and v.version = i.live_version
  join content_asset c on c.content_hash = v.content_hash
  left join asset a on a.item_id = i.id and a.version = v.version and a.hash = c.hash
 where i.id = %(item)s and c.kind = 'image' and c.blob_hash is not null and c.media_type = any (%(types)s)
   and c.start >= %(first)s and (%(last)s::bigint is null or c.start < %(last)s)
 order by c.start, c.number limit %(limit)s;

-- name: live_parts_with
-- Parts of the content of the live version in which a text stands.
select p.start, p.text, p.page from item i
  join item_version v on v.item_id = i.id and v.version = i.live_version
  join content_part p on p.content_hash = v.content_hash
 where i.id = %(id)s and strpos(p.text, %(wanted)s) > 0
 order by p.start limit %(limit)s;
