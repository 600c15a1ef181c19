-- Bases: their locks and lanes, and the moment they become ready.

-- Serialises changes of one base; workers that write its items share the lock. Never held across I/O.
create function base_lock(p_base uuid) returns void language sql as
    'select pg_advisory_xact_lock(hashtextextended(p_base::text, 1735551596))';
create function base_lock_shared(p_base uuid) returns void language sql as
    'select pg_advisory_xact_lock_shared(hashtextextended(p_base::text, 1735551596))';

-- The set of chunks of a new base has the base's own id.
create function base_name_chunk_set() returns trigger language plpgsql as $$
begin
    new.chunk_set := coalesce(new.chunk_set, new.id);
    return new;
end $$;
create trigger base_name_chunk_set before insert on base for each row execute function base_name_chunk_set();

-- Records which organisation a base's lane belongs to, and its set of chunks.
create function base_record_owner() returns trigger language plpgsql as $$
begin
    insert into lane_owner (lane, org_id) values (new.id::text, new.org_id) on conflict do nothing;
    insert into chunk_set (id, base_id, embedder, embedder_identity, dimensions, chunking)
    values (new.chunk_set, new.id, new.embedder, new.embedder_identity, new.dimensions, new.chunking);
    return null;
end $$;
create trigger base_record_owner after insert on base for each row execute function base_record_owner();

-- Whether images of a base's searchable documents wait for their descriptions.
create function base_has_waiting_images(p_base uuid) returns boolean language sql stable as $$
    select exists (select from asset a join item i on i.id = a.item_id and i.live_version = a.version
                    where a.state in ('waiting', 'asking') and i.base_id = p_base and i.status <> 'deleting')
$$;

-- Marks a base as ready if nothing in it is active, no image waits for its description, and this was not announced yet; the
-- counts of its documents if so.
-- Every transaction that ends work on a base's items or describes its last image calls this last, and of two that end the last two items the second must
-- see the first. If another document is active that no one is ending, it is locked: whoever ends it comes after this
-- transaction, so that nothing is to be done here. Only when there is none are they serialised: the lock comes first, the query
-- after it has a newer snapshot. The newest document, because it is the last to be worked on.
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

-- Whether nothing uses a blob. The caller has locked its row.
create function blob_is_unused(p_hash bytea) returns boolean language sql stable as $$
    select not exists (select from item i where i.blob_hash = p_hash)
       and not exists (select from stored_file f where f.blob_hash = p_hash)
       and not exists (select from item_version v where v.original = p_hash)
       and not exists (select from attachment a where a.blob_hash = p_hash)
       and not exists (select from content_asset a where a.blob_hash = p_hash)
$$;
