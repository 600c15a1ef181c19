-- name: insert_hidden_base
-- () -> deleting: a base that is shown once it is complete.
insert into base (name, status, embedder, embedder_identity, dimensions, chunking, file_processor, on_restart, settings, acl,
                  org_id, description, metadata, expire_days, ingested)
values (%(name)s, 'deleting', %(embedder)s, %(embedder_identity)s, %(dimensions)s, %(chunking)s, %(file_processor)s,
        %(on_restart)s, %(settings)s, %(acl)s::text[], %(org)s, %(description)s, %(metadata)s, %(expire_days)s, true)
returning *;

-- name: insert_imported_items
-- Inserts items as an archive has them. Access lists are inherited from parents, which come before their children.
insert into item (id, base_id, parent_id, type, title, status, error_code, error_message, warnings, source, source_key, blob_hash,
                  body, size_bytes, wanted_version, live_version, expanded_version, attachments_version, attachments_content,
                  chunk_count, left_out, acl, metadata, document, chunking, created_at, updated_at, titled_by_source)
select u.id, %(base)s, u.parent, u.type, u.title, u.status, u.error_code, u.error_message, u.warnings, u.source, u.source_key,
       decode(u.blob, 'hex'), u.body, u.size_bytes, u.version, u.live_version, u.version, u.attachments_version,
       decode(u.attachments_content, 'hex'), u.chunk_count, u.left_out, u.acl, u.metadata, u.document, u.chunking, u.created_at,
       u.updated_at, coalesce(u.type = 'url' and u.title in (left(u.source ->> 'url', 500), u.document ->> 'title'), false)
  from rows from (json_to_recordset(%(rows)s::json) as
       (id uuid, parent uuid, type text, title text, status text, error_code text, error_message text, warnings text[],
        source jsonb, source_key text, blob text, body text, size_bytes bigint, version int, live_version int,
        attachments_version int, attachments_content text, chunk_count int, left_out jsonb, acl text[], metadata jsonb,
        document jsonb, chunking jsonb, created_at timestamptz, updated_at timestamptz)) with ordinality
       u(id, parent, type, title, status, error_code, error_message, warnings, source, source_key, blob, body, size_bytes, version,
         live_version, attachments_version, attachments_content, chunk_count, left_out, acl, metadata, document, chunking,
         created_at, updated_at, n)
 order by u.n;

-- name: insert_imported_exclusions
-- Inserts what is left out of containers.
insert into exclusion (base_id, root_id, type, source_key, title)
select %(base)s, u.root, u.type, u.source_key, u.title
  from unnest(%(roots)s::uuid[], %(types)s::text[], %(keys)s::text[], %(titles)s::text[]) u(root, type, source_key, title)
on conflict do nothing;

-- name: reveal_base
-- deleting -> ready, for a base that was imported.
update base set name = %(name)s, status = 'ready', updated_at = clock_now(), last_active_at = clock_now(),
       expires_at = clock_now() + make_interval(days => expire_days)
 where id = %(id)s and status = 'deleting'
returning *;
