-- Part of the schema of the first release. Frozen: read schema/ and functions/ instead.
create function base_lock(p_base uuid) returns void language sql as
    'select pg_advisory_xact_lock(hashtextextended(p_base::text, 1735551596))';
create function base_lock_shared(p_base uuid) returns void language sql as
    'select pg_advisory_xact_lock_shared(hashtextextended(p_base::text, 1735551596))';
create function base_name_chunk_set() returns trigger language plpgsql as $$
begin
    new.chunk_set := coalesce(new.chunk_set, new.id);
    return new;
end $$;
create trigger base_name_chunk_set before insert on base for each row execute function base_name_chunk_set();
create function base_record_owner() returns trigger language plpgsql as $$
begin
    insert into lane_owner (lane, org_id) values (new.id::text, new.org_id) on conflict do nothing;
    insert into chunk_set (id, base_id, embedder, embedder_identity, dimensions, chunking)
    values (new.chunk_set, new.id, new.embedder, new.embedder_identity, new.dimensions, new.chunking);
    return null;
end $$;
create trigger base_record_owner after insert on base for each row execute function base_record_owner();
create function base_has_waiting_images(p_base uuid) returns boolean language sql stable as $$
    select exists (select from asset a join item i on i.id = a.item_id and i.live_version = a.version
                    where a.state in ('waiting', 'asking') and i.base_id = p_base and i.status <> 'deleting')
$$;
create function base_mark_ready(p_base uuid, out completed int, out failed int) returns record language plpgsql as $$
begin
    perform from item i where i.base_id = p_base and i.is_active and not i.is_container
      order by i.id desc limit 1 for no key update skip locked;
    if found then
        return;
    end if;
    perform pg_advisory_xact_lock(hashtextextended(p_base::text, 1701147252));
    if exists (select from item i where i.base_id = p_base and i.is_active) or base_has_waiting_images(p_base) then
        return;
    end if;
    update base b set ingested = true where b.id = p_base and not b.ingested and b.status <> 'deleting'
       and exists (select from item i where i.base_id = p_base and i.status in ('completed', 'failed'));
    if found then
        select count(*) filter (where i.status = 'completed'), count(*) filter (where i.status = 'failed')
          into completed, failed
          from item i where i.base_id = p_base and not i.is_container;
    end if;
end $$;
create function blob_is_unused(p_hash bytea) returns boolean language sql stable as $$
    select not exists (select from item i where i.blob_hash = p_hash)
       and not exists (select from stored_file f where f.blob_hash = p_hash)
       and not exists (select from item_version v where v.original = p_hash)
       and not exists (select from attachment a where a.blob_hash = p_hash)
       and not exists (select from content_asset a where a.blob_hash = p_hash)
$$;
