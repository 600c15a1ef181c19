-- Connectors: the tools of a team that are kept in sync, what is known of their documents, and how each run went.

-- owner: connectors
-- A connector feeds bases of its own organisation only.
create table connector (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null default '00000000-0000-7000-8000-000000000001' references organisation,
    name            text not null,
    type            text not null,              -- one of the registry's kinds, or of a plugin's
    config          jsonb not null,
    credentials     bytea not null,             -- encrypted by the vault
    schedule        text not null,              -- cron
    acl_schedule    text not null,              -- cron: permissions only
    enabled         boolean not null default true,
    acl             text[],                     -- null: the tool's permissions apply; else this list, for everything
    -- running → success | completed_with_errors | partial | failed | cancelled; null before the first run
    last_sync_status text,
    last_sync_at    timestamptz,
    last_sync_error_code text,
    last_sync_error text,
    rate_limited_until timestamptz,             -- while a run waits for the tool
    acl_as_of       timestamptz,                -- all permissions are as old as this, or newer
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create unique index connector_name on connector (org_id, lower(name));
create index connector_org on connector (org_id, id);

-- owner: connectors
-- The bases that a connector feeds; `item_id` is the container there, null until the first run.
create table connector_base (
    connector_id    uuid not null references connector on delete cascade,
    base_id         uuid not null references base on delete cascade,
    item_id         uuid references item on delete set null,
    filled          boolean not null default false, -- a container was filed: if it is gone, a user deleted it
    primary key (connector_id, base_id)
);
create index connector_base_base on connector_base (base_id);
create index connector_base_item on connector_base (item_id) where item_id is not null;

-- owner: connectors
-- The secret by which a tool proves that a call about changes is its own, and whether a run has to begin because of such a call.
-- It is locked before every other row.
create table connector_push (
    connector_id    uuid primary key references connector on delete cascade,
    secret          bytea not null,             -- encrypted by the vault
    due             boolean not null default false, -- a run has to begin: its job is queued, or is when the open run ends
    created_at      timestamptz not null default clock_now(),
    last_push_at    timestamptz
);

-- owner: connectors
-- A worker is renewing a secret that its tool replaces when it is used. Others wait until the row is gone or has expired.
create table connector_renewal (
    connector_id    uuid primary key references connector on delete cascade,
    lease           uuid not null,
    expires_at      timestamptz not null
);

-- owner: connectors
-- () → running ⇄ partial → success | completed_with_errors | partial | failed | cancelled. At most one is open.
create table connector_run (
    id              uuid primary key default uuidv7(),
    connector_id    uuid not null references connector on delete cascade,
    job_id          uuid not null,              -- the job that runs it: an open run without a living job is an orphan
    trigger         text not null check (trigger in ('schedule', 'manual', 'push')),
    status          text not null default 'running' check (status in
        ('running', 'success', 'completed_with_errors', 'partial', 'failed', 'cancelled')),
    stage           text not null default 'reading' check (stage in ('reading', 'pruning', 'indexing', 'ended')),
    force           boolean not null default false,
    dry_run         boolean not null default false,
    allow_deletions boolean not null default false,
    started_at      timestamptz not null default clock_now(),
    completed_at    timestamptz,
    total_items     int,                        -- estimated
    documents_processed int not null default 0,
    documents_ingested int not null default 0,
    documents_unchanged int not null default 0,
    documents_pruned int not null default 0,
    deletions_held  int not null default 0,     -- by the guard against mass deletion
    total_batches   int not null default 0,
    item_errors     int not null default 0,
    continuations   int not null default 0,
    rate_limited_until timestamptz,
    error_code      text,
    error_message   text,
    plan            jsonb,                      -- what a dry run would do
    checkpoint      jsonb                       -- of all streams, at its end
);
create unique index connector_run_open on connector_run (connector_id) where completed_at is null;
create index connector_run_connector on connector_run (connector_id, id);

-- owner: connectors
-- The log of a run.
create table connector_run_line (
    run_id          uuid not null references connector_run on delete cascade,
    no              bigint generated always as identity,
    at              timestamptz not null default clock_now(),
    level           text not null check (level in ('info', 'warning', 'error')),
    message         text not null,
    primary key (run_id, no)
);

-- owner: connectors
-- How far each stream has been read. `listing` counts its listings: a document that the last complete one did not name is
-- gone from the tool.
create table connector_stream (
    connector_id    uuid not null references connector on delete cascade,
    scope           text collate "C" not null,
    kind            text collate "C" not null,
    checkpoint_version int,
    checkpoint      jsonb,
    listing         int not null default 0,
    listed          boolean not null default false, -- the listing is complete
    lost            boolean not null default false, -- the scope is gone, or closed to us
    last_run_id     uuid,                       -- the last run that reported on it
    updated_at      timestamptz not null default clock_now(),
    primary key (connector_id, scope, kind)
);

-- owner: connectors
-- What is known of each document of the tool. Its texts are items, one in each base.
create table connector_document (
    connector_id    uuid not null references connector on delete cascade,
    source_id       text collate "C" not null,
    scope           text collate "C" not null,
    kind            text collate "C" not null,
    locator         jsonb not null default '{}',
    hash            bytea not null,             -- SHA-256 of everything that is filed
    audience        text not null,
    seen            int not null default 0,     -- the stream's listing that last named it
    mark            text,                       -- its ETag, revision or hash when it was read, for tools that list them
    missing         boolean not null default false, -- a complete listing did not name it, or the tool reports it as gone
    folders         jsonb not null default '{}', -- the folders that it was read in, by id, with their marks; for tools that report changes
    audience_as_of  timestamptz not null default '-infinity', -- when the tool was asked for its audience: an older answer changes nothing
    primary key (connector_id, source_id)
);
create index connector_document_stream on connector_document (connector_id, scope, kind, seen);
create index connector_document_audience on connector_document (connector_id, audience);
create index connector_document_folders on connector_document using gin (folders) where folders <> '{}';

-- owner: connectors
-- Documents that could not be read. The next run asks for them again.
create table connector_failure (
    connector_id    uuid not null references connector on delete cascade,
    source_id       text collate "C" not null,
    scope           text collate "C" not null,
    kind            text collate "C" not null,
    locator         jsonb not null default '{}',
    run_id          uuid not null,
    attempts        int not null default 1,
    error_code      text not null,
    error_message   text not null,
    failed_at       timestamptz not null default clock_now(),
    content_mark    text,                       -- not read yet: what its contents are recognised by, if it was moved
    primary key (connector_id, source_id)
);

-- owner: connectors
-- Who may see documents, as the tool reports it, and the list that follows for our items; empty while not `complete`.
create table connector_audience (
    connector_id    uuid not null references connector on delete cascade,
    key             text collate "C" not null,
    everybody       boolean not null,
    emails          text[] not null,
    users           text[] not null,            -- accounts without a known address
    groups          text[] not null,
    complete        boolean not null,
    acl             text[] not null,
    as_of           timestamptz not null default clock_now(),
    tool_groups     text[] not null default '{}', -- keys of groups of the tool
    primary key (connector_id, key)
);

-- owner: connectors
-- Groups of the tool that audiences name; `tool_group:{id}` in access lists, which no one else can claim. Only a `complete` one counts.
-- One of a deleted connector stays, with its last members, while a base keeps records that name it.
create table connector_group (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    connector_id    uuid references connector on delete cascade, -- null: the connector was deleted, its records were not
    key             text collate "C" not null,  -- what the tool calls it; never changes
    name            text not null,
    complete        boolean not null default false, -- all members are known
    digest          bytea not null default '',  -- of members and `complete`: an unchanged group costs no look at its members
    as_of           timestamptz not null default clock_now(),
    kept_for        uuid[] not null default '{}' -- bases that the connector no longer feeds and that keep its records
);
create unique index connector_group_key on connector_group (connector_id, key);
create index connector_group_org on connector_group (org_id);

-- owner: connectors
-- A member of a group: by address, or by an account whose address the tool does not show and that people map.
create table connector_group_member (
    group_id        uuid not null references connector_group on delete cascade,
    email           text collate "C",
    user_id         text collate "C",
    check (num_nonnulls(email, user_id) = 1)
);
create unique index connector_group_member_email on connector_group_member (email, group_id) where email is not null;
create unique index connector_group_member_user on connector_group_member (user_id, group_id) where user_id is not null;
create index connector_group_member_group on connector_group_member (group_id);

-- owner: connectors
-- Accounts of the tool, and the addresses that admins mapped them to.
create table connector_identity (
    connector_id    uuid not null references connector on delete cascade,
    user_id         text collate "C" not null,
    name            text not null default '',
    email           text,
    primary key (connector_id, user_id)
);
create index connector_identity_email on connector_identity (email) where email is not null;
