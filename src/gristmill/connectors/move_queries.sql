-- Documents that were moved: they keep their records.

-- name: moved_documents
-- Documents that a complete listing no longer names, whose contents it names under one id that is new.
-- The contents must be those of one missing document and one new one: of two equal files, either could be the one that moved.
with missing as (
    select d.source_id, d.scope, d.kind, d.mark, count(*) over (partition by d.scope, d.kind, d.mark) as copies
      from connector_document d
      join connector_stream s on s.connector_id = d.connector_id and s.scope = d.scope and s.kind = d.kind
     where d.connector_id = %(connector)s and s.listed and d.seen < s.listing and d.mark is not null),
new as (
    select f.source_id, f.scope, f.kind, f.content_mark, count(*) over (partition by f.scope, f.kind, f.content_mark) as copies
      from connector_failure f
     where f.connector_id = %(connector)s and f.error_code = 'not_read_yet' and f.content_mark is not null
       and not exists (select from connector_document d
                        where d.connector_id = f.connector_id and d.source_id = f.source_id))
select m.source_id as old_id, n.source_id as new_id
  from missing m join new n on n.scope = m.scope and n.kind = m.kind and n.content_mark = m.mark
 where m.copies = 1 and n.copies = 1 order by 1;

-- name: rename_documents
-- Gives documents their new ids. They are still to be read: their titles and addresses have changed.
update connector_document d set source_id = u.new_id, mark = null, seen = s.listing, missing = false
  from unnest(%(old_ids)s::text[], %(new_ids)s::text[]) u(old_id, new_id), connector_stream s
 where d.connector_id = %(connector)s and d.source_id = u.old_id
   and s.connector_id = d.connector_id and s.scope = d.scope and s.kind = d.kind;
