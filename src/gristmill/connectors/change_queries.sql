-- What listings and reports of changes say of documents that are known: they are gone, or have to be read again.

-- name: mark_unlisted_missing
-- A listing is complete: records that it did not name documents.
update connector_document set missing = true
 where connector_id = %(connector)s and scope = %(scope)s and kind = %(kind)s and seen < %(listing)s and not missing;

-- name: mark_documents_missing
-- Records that the tool reports documents as gone.
update connector_document set missing = true
 where connector_id = %(connector)s and source_id = any (%(sources)s::text[]) and not missing;

-- name: missing_documents
-- Documents that were not named, or reported as gone, and are still known.
select source_id from connector_document where connector_id = %(connector)s and missing;

-- name: documents_below
-- Documents that were read in a folder that has another mark now, or whose documents all have to be read again.
select d.source_id from connector_document d
 where d.connector_id = %(connector)s and d.scope = %(scope)s and d.kind = %(kind)s
   and d.folders <> '{}' and d.folders ?| %(folders)s::text[]
   and exists (select from unnest(%(folders)s::text[], %(marks)s::text[]) u(id, mark)
                where d.folders ? u.id and d.folders ->> u.id is distinct from u.mark)
 order by d.source_id;

-- name: note_unread
-- Notes documents that have to be read again.
insert into connector_failure (connector_id, source_id, scope, kind, locator, run_id, error_code, error_message, attempts)
select d.connector_id, d.source_id, d.scope, d.kind, d.locator, %(run)s, %(code)s, %(message)s, 0
  from connector_document d where d.connector_id = %(connector)s and d.source_id = any (%(sources)s::text[])
on conflict (connector_id, source_id) do nothing;
