-- Part of the schema of the first release. Frozen: read schema/ and functions/ instead.
create function item_queue_relabel() returns trigger language plpgsql as $$
begin
    if exists (select from base b where b.id = new.base_id and 'opensearch' in (b.index_kind, b.index_fill)) then
        insert into index_task (base_id, kind, item_id)
        select new.base_id, 'relabel', i.id from item i
         where i.id = new.id or (new.acl is distinct from old.acl and i.base_id = new.base_id and i.acl_from = new.id);
    end if;
    return null;
end $$;
create trigger item_queue_relabel after update of acl, acl_from, metadata, parent_id, type on item for each row
    when (new.acl is distinct from old.acl or new.acl_from is distinct from old.acl_from
          or new.metadata is distinct from old.metadata or new.parent_id is distinct from old.parent_id
          or new.type is distinct from old.type)
    execute function item_queue_relabel();
create function deleted_chunk_queue_removal() returns trigger language plpgsql as $$
begin
    insert into index_task (base_id, kind)
    select b.id, 'remove' from (select distinct d.set_id from deleted d) d
      join chunk_set s on s.id = d.set_id
      join base b on b.id = s.base_id and b.chunk_set = s.id and 'opensearch' in (b.index_kind, b.index_fill);
    return null;
end $$;
create trigger deleted_chunk_queue_removal after insert on deleted_chunk referencing new table as deleted
    for each statement execute function deleted_chunk_queue_removal();
