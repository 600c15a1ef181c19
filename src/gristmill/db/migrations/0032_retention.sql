-- Retention per base, legal holds, and a record of deletions.
alter table item_version add column changed_at timestamptz not null default clock_now();
alter table item_version add column replaced_at timestamptz;
update item_version set changed_at = created_at;
create index item_version_replaced on item_version (replaced_at) where replaced_at is not null;

create table retention (
    base_id         uuid primary key references base on delete cascade,
    document_days   int check (document_days > 0),
    version_days    int check (version_days > 0),
    event_days      int check (event_days > 0),
    updated_at      timestamptz not null default clock_now()
);

create table legal_hold (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    base_id         uuid not null,
    item_id         uuid,
    title           text not null,
    reason          text not null,
    placed_by       text not null,
    placed_at       timestamptz not null default clock_now(),
    lifted_by       text,
    lifted_at       timestamptz
);
create index legal_hold_active on legal_hold (base_id) where lifted_at is null;
create index legal_hold_org on legal_hold (org_id, id);

create table deletion_record (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null,
    base_id         uuid not null,
    base_name       text not null,
    item_id         uuid not null,
    type            text not null,
    title           text,
    source          text,
    version         int,
    size_bytes      bigint,
    content_hash    bytea,
    original_hash   bytea,
    reason          text not null check (reason in ('person', 'source', 'retention', 'expiry')),
    actor           text,
    job_id          uuid,
    requested_at    timestamptz not null,
    removed_at      timestamptz not null default clock_now()
);
create index deletion_record_org on deletion_record (org_id, id);
create index deletion_record_removed on deletion_record using brin (removed_at);

create function item_ancestry(p_id uuid) returns uuid[] language sql stable as $$
    with recursive above as (
        select i.id, i.parent_id from item i where i.id = p_id
        union all
        select p.id, p.parent_id from item p join above a on p.id = a.parent_id)
    select coalesce(array_agg(a.id), '{}') from above a
$$;

create function item_is_held(p_id uuid, p_base uuid) returns boolean language sql stable as $$
    select exists (select from legal_hold h
                    where h.base_id = p_base and h.lifted_at is null
                      and (h.item_id is null or h.item_id = any (item_ancestry(p_id))))
$$;

create function held_roots(p_base uuid, p_roots uuid[]) returns setof uuid language sql stable as $$
    select r.id from unnest(p_roots) r(id)
     where exists (select from legal_hold h
                    where h.base_id = p_base and h.lifted_at is null
                      and (h.item_id is null or h.item_id = any (item_ancestry(r.id)) or r.id = any (item_ancestry(h.item_id))))
$$;

create function item_keeps_versions(p_id uuid, p_base uuid) returns boolean language sql stable as $$
    select exists (select from retention r where r.base_id = p_base and r.version_days is not null) or item_is_held(p_id, p_base)
$$;

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
