-- What legal holds cover, and which versions are kept.

-- An item and everything above it.
create function item_ancestry(p_id uuid) returns uuid[] language sql stable as $$
    with recursive above as (
        select i.id, i.parent_id from item i where i.id = p_id
        union all
        select p.id, p.parent_id from item p join above a on p.id = a.parent_id)
    select coalesce(array_agg(a.id), '{}') from above a
$$;

-- Whether a hold covers an item: one of it, of something above it, or of its base.
create function item_is_held(p_id uuid, p_base uuid) returns boolean language sql stable as $$
    select exists (select from legal_hold h
                    where h.base_id = p_base and h.lifted_at is null
                      and (h.item_id is null or h.item_id = any (item_ancestry(p_id))))
$$;

-- Those of subtrees of a base in which a hold covers something.
create function held_roots(p_base uuid, p_roots uuid[]) returns setof uuid language sql stable as $$
    select r.id from unnest(p_roots) r(id)
     where exists (select from legal_hold h
                    where h.base_id = p_base and h.lifted_at is null
                      and (h.item_id is null or h.item_id = any (item_ancestry(r.id)) or r.id = any (item_ancestry(h.item_id))))
$$;

-- Whether versions of an item are kept when newer ones replace them.
create function item_keeps_versions(p_id uuid, p_base uuid) returns boolean language sql stable as $$
    select exists (select from retention r where r.base_id = p_base and r.version_days is not null) or item_is_held(p_id, p_base)
$$;

-- The bytes of an upload belong to the version that was made of them, if that is to be kept.
create function item_keep_original() returns trigger language plpgsql as $$
begin
    if item_keeps_versions(old.id, old.base_id) then
        update item_version v set original = old.blob_hash
         where v.item_id = old.id and v.version = old.live_version and v.original is null;
    end if;
    return new;
end $$;
create trigger item_keep_original before update of blob_hash on item for each row
    when (old.blob_hash is not null and old.blob_hash is distinct from new.blob_hash) execute function item_keep_original();
