-- Part of the schema of the first release. Frozen: read schema/ and functions/ instead.
create view item_row as
select i.id, i.base_id, i.parent_id, i.type, i.title, i.status, i.error_code, i.error_message, i.warnings, i.source,
       i.size_bytes, i.wanted_version, i.live_version, i.chunk_count, i.left_out, i.created_at, i.updated_at,
       case when i.status in ('completed', 'deleting') then null
            when i.is_container then item_progress(i.id)
            else (select p.percent from progress p where p.item_id = i.id and p.version = i.wanted_version) end as percent,
       case when i.is_active then
            (select p.note from progress p where p.item_id = i.id and p.version = i.wanted_version) end as waiting_for,
       i.acl, i.metadata, item_acl_as_of(i) as acl_as_of, i.acl_from
  from item i;
