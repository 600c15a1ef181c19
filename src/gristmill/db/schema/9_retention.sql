-- How long bases keep what they have, what must not be deleted, and what was deleted.

-- owner: catalog
-- How long a base keeps things, in days. Null: documents without limit, no earlier versions, events and the audit log as the settings say.
create table retention (
    base_id         uuid primary key references base on delete cascade,
    document_days   int check (document_days > 0), -- since the last change of their content
    version_days    int check (version_days > 0),  -- since a newer version replaced them
    event_days      int check (event_days > 0),
    updated_at      timestamptz not null default clock_now(),
    audit_days      int check (audit_days > 0)
);

-- owner: catalog
-- Legal holds: while one is not lifted, nothing that it covers is deleted. Lifted ones stay, for the record; so there are no foreign
-- keys to what may be deleted then.
create table legal_hold (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    base_id         uuid not null,
    item_id         uuid,                       -- with everything below it; null: the whole base
    title           text not null,              -- of the item or the base, at that time
    reason          text not null,
    placed_by       text not null,
    placed_at       timestamptz not null default clock_now(),
    lifted_by       text,
    lifted_at       timestamptz
);
create index legal_hold_active on legal_hold (base_id) where lifted_at is null;
create index legal_hold_org on legal_hold (org_id, id);

-- owner: catalog
-- What was deleted, for the auditor: no contents, but their hashes. Written in the transaction that deletes.
create table deletion_record (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null,
    base_id         uuid not null,
    base_name       text not null,
    item_id         uuid not null,
    type            text not null,
    title           text,                       -- null for notes: it is the beginning of their text
    source          text,                       -- path, address or name
    version         int,
    size_bytes      bigint,
    content_hash    bytea,                      -- of what was read, and by which reader
    original_hash   bytea,                      -- SHA-256 of the bytes, if they were stored here
    reason          text not null check (reason in ('person', 'source', 'retention', 'expiry')),
    actor           text,                       -- who asked for it
    job_id          uuid,
    requested_at    timestamptz not null,
    removed_at      timestamptz not null default clock_now()
);
create index deletion_record_org on deletion_record (org_id, id);
create index deletion_record_removed on deletion_record using brin (removed_at);
