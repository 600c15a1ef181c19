-- Part of the schema of the first release. Frozen: read schema/ and functions/ instead.
create table stored_file (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    name            text not null,
    purpose         text not null,
    blob_hash       bytea not null references blob,
    size            bigint not null,
    acl             text[] not null,            -- who sees it besides admins; as the list of a base
    expires_at      timestamptz,                -- from then on it is not shown, and soon deleted; null: never
    created_at      timestamptz not null default clock_now()
);
create index stored_file_org on stored_file (org_id, id);
create index stored_file_blob on stored_file (blob_hash);
create index stored_file_expires on stored_file (expires_at) where expires_at is not null;
create table file_batch (
    id              uuid primary key default uuidv7(),
    base_id         uuid not null references base on delete cascade,
    cancelled_at    timestamptz,
    created_at      timestamptz not null default clock_now()
);
create index file_batch_base on file_batch (base_id);
create table file_batch_item (
    batch_id        uuid not null references file_batch on delete cascade,
    file_id         uuid not null,
    item_id         uuid references item on delete set null, -- null once the item is deleted
    primary key (batch_id, file_id)
);
create index file_batch_item_item on file_batch_item (item_id) where item_id is not null;
