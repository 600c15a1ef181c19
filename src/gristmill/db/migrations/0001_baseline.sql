-- The schema of the first release, as existing databases have it. Frozen: read schema/ and functions/ instead.
create extension if not exists vector;
create function clock_now() returns timestamptz
    language sql stable parallel safe as 'select statement_timestamp()';
do $do$
begin
    if current_setting('server_version_num')::int < 180000 then
        create function uuidv7() returns uuid language sql volatile parallel safe as $$
            select encode(
                set_byte(set_byte(overlay(uuid_send(gen_random_uuid())
                    placing substring(int8send((us / 1000)::bigint) from 3) from 1 for 6),
                    6, 112 | ((us % 1000) * 4096 / 1000 / 256)::int),
                    7, ((us % 1000) * 4096 / 1000 % 256)::int), 'hex')::uuid
            from (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as us) t
        $$;
    end if;
end $do$;
create table organisation (
    id              uuid primary key default uuidv7(),
    name            text not null,
    created_at      timestamptz not null default clock_now()
);
create unique index organisation_name on organisation (lower(name));
insert into organisation (id, name) values ('00000000-0000-7000-8000-000000000001', 'local');
create table api_key (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    name            text not null,
    prefix          text not null,              -- the first characters of the secret, to recognise the key by
    hash            bytea not null unique,      -- SHA-256 of the secret; the secret is random, so no salt is needed
    role            text not null check (role in ('admin', 'editor', 'reader')),
    email           text,                       -- the principal that the key acts as, with its teams and groups
    teams           text[] not null default '{}',
    groups          text[] not null default '{}',
    expires_at      timestamptz,
    last_used_at    timestamptz,                -- to the minute
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create index api_key_org on api_key (org_id, id);
create table session (
    hash            bytea primary key,          -- SHA-256 of the cookie's value
    key_id          uuid not null references api_key on delete cascade,
    expires_at      timestamptz not null,
    created_at      timestamptz not null default clock_now()
);
create index session_key on session (key_id);
create table audit (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    at              timestamptz not null default clock_now(),
    actor           text not null,              -- key:{prefix}, session:{prefix}, local or cli
    key_id          uuid,                       -- no foreign key: the log outlives keys
    role            text not null,
    method          text not null,
    path            text not null,
    client          text,
    status          int,
    took_ms         int
);
create index audit_org on audit (org_id, id);
create index audit_at on audit (at);
create table idempotency (
    org_id          uuid not null references organisation,
    caller          text not null,              -- the key's id, or local
    key             text not null,
    token           uuid not null,              -- the attempt that owns the row; writes with another token are refused
    fingerprint     bytea not null,             -- of the request
    state           text not null check (state in ('running', 'done', 'answered')),
    status          int,
    answer          bytea,                      -- encrypted by the vault: it may contain a new key's secret
    at              timestamptz not null default clock_now(),
    primary key (org_id, caller, key)
);
create index idempotency_at on idempotency (at);
create table base (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null default '00000000-0000-7000-8000-000000000001' references organisation,
    name            text not null,
    status          text not null default 'ready' check (status in ('ready', 'failed', 'deleting')),
    error_code      text,
    error_message   text,
    embedder        text not null,              -- its name in the settings
    embedder_identity text not null,            -- what made the vectors: only vectors of one identity are comparable
    dimensions      int not null,
    chunking        jsonb not null default '{}',
    file_processor  text,
    on_restart      text not null default 'resume' check (on_restart in ('resume', 'park')),
    settings        jsonb not null default '{}', -- {"ignore": [pattern, …], "includeHidden": bool}
    acl             text[] not null default '{}', -- org:*, team:{id}, group:{id}, user_email:{address}; empty: admins only
    ingested        boolean not null default false, -- the base was announced as ready since it last got work
    busy_since      timestamptz,                -- when it got the work that is not announced as done yet
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create unique index base_name on base (org_id, lower(name)) where status <> 'deleting';
create index base_org on base (org_id, id);
create table blob (
    hash            bytea primary key,          -- SHA-256
    size            bigint not null,
    name            text not null,              -- in the object store
    touched_at      timestamptz not null default clock_now() -- stored or reused: unused blobs stay a while after it
);
create table pending_blob_name (
    name            text collate "C" primary key,
    deleting        boolean not null,           -- no upload may keep it any more
    due_at          timestamptz not null default clock_now()
);
create index pending_blob_name_deleting on pending_blob_name (name) where deleting;
create table item (
    id              uuid primary key default uuidv7(),
    base_id         uuid not null references base on delete cascade,
    parent_id       uuid references item on delete cascade,
    type            text not null check (type in ('directory', 'sitemap', 'connector', 'file', 'url', 'note', 'record')),
    is_container    boolean not null generated always as (type in ('directory', 'sitemap', 'connector')) stored,
    title           text not null,
    status          text not null check (status in
        ('idle', 'preparing', 'processing', 'reading', 'embedding', 'completed', 'failed', 'deleting')),
    error_code      text,
    error_message   text,
    warnings        text[] not null default '{}',
    source          jsonb not null default '{}', -- where it comes from: {"path": …}, {"url": …} or {"name": …}
    source_key      text not null,              -- its identity among its siblings: path, address, name or title
    blob_hash       bytea references blob,      -- the bytes of an uploaded file
    body            text,                       -- the text of a note; null for every other type
    size_bytes      bigint,
    wanted_version  int not null default 1,     -- raised by every (re)scheduling
    live_version    int,                        -- the version that search reads; null while nothing is searchable
    expanded_version int not null default 0,    -- containers: the last version whose children are all filed
    listed_version  int not null default 0,     -- children: the container's version that last listed them
    attachments_version int not null default 0, -- documents: the version whose attachments are filed as children …
    attachments_content bytea,                  -- … and the content they were found in
    chunk_count     int not null default 0,     -- of the live version
    left_out        jsonb not null default '{}', -- containers: what the last listing left out, as {reason: number}
    cause           uuid,                       -- the request, run or rebuild that last scheduled it; its events carry it
    acl             text[],                     -- its own list; null inherits
    acl_from        uuid,                       -- the item, itself or above, whose list applies; null: the base's
    metadata        jsonb not null default '{}',
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create index item_tree on item (base_id, parent_id, id);
create index item_status on item (base_id, status);
create index item_children on item (parent_id, status) where parent_id is not null;
create index item_key on item (base_id, parent_id, type, md5(source_key));
create index item_deleting on item (base_id) where status = 'deleting';
create index item_blob on item (blob_hash) where blob_hash is not null;
create index item_updated on item (updated_at);             -- the stream of item updates
create index item_acl on item using gin (acl) where acl is not null;
create index item_acl_from on item (base_id, acl_from);
create index item_own_acl on item (base_id) where acl is not null;      -- does a base hide anything from a caller?
create index item_metadata on item using gin (metadata jsonb_path_ops);
create index item_active on item (base_id, id)
    where status in ('idle', 'preparing', 'processing', 'reading', 'embedding');
create index item_container on item (base_id, id) where is_container;
create index item_cause_active on item (cause) where status in ('processing', 'reading', 'embedding');
create unique index item_record on item (parent_id, source_key) where type = 'record' and status <> 'deleting';
create unlogged table progress (
    item_id         uuid primary key,
    version         int not null,
    percent         real not null,
    note            text,                       -- what it is waiting for
    updated_at      timestamptz not null default clock_now()
);
create table content (
    hash            bytea primary key,          -- SHA-256 of (SHA-256 of the input, reader and its version)
    characters      bigint,                     -- null until all parts are stored
    warnings        text[] not null default '{}', -- of its reader
    created_at      timestamptz not null default clock_now()
);
create table content_part (
    content_hash    bytea not null references content on delete cascade,
    start           bigint not null,            -- in characters
    text            text not null,
    page            int,
    primary key (content_hash, start)
);
create table attachment (
    content_hash    bytea not null references content on delete cascade,
    fingerprint     bytea not null,             -- of name and bytes: a repetition is stored once
    number          int not null,               -- in the order they were found
    name            text not null,              -- a path within the document
    blob_hash       bytea not null references blob,
    size            bigint not null,
    primary key (content_hash, fingerprint)
);
create index attachment_blob on attachment (blob_hash);
create table content_asset (
    content_hash    bytea not null references content on delete cascade,
    hash            bytea not null,             -- SHA-256 of an image's bytes, or of a table's text
    number          int not null,
    kind            text not null check (kind in ('image', 'table')),
    media_type      text not null,
    size            bigint not null,
    page            int,
    start           bigint not null,            -- its offset in the content, in characters
    "end"           bigint not null,
    caption         text not null default '',
    inline          boolean not null default false, -- its text is part of the content: no description is needed
    blob_hash       bytea references blob,      -- an image's bytes
    primary key (content_hash, hash)
);
create index content_asset_blob on content_asset (blob_hash) where blob_hash is not null;
create table item_version (
    item_id         uuid not null references item on delete cascade,
    version         int not null,
    content_hash    bytea not null references content,
    recipe          text,                       -- what chunked and embedded it; null: not known
    timeline        jsonb not null default '{}',
    analysed        boolean not null default false, -- it was announced that all of its assets are described
    original        bytea references blob,      -- the bytes of a page as it was fetched …
    validators      jsonb not null default '{}', -- … and the headers that tell whether it changed since
    created_at      timestamptz not null default clock_now(),
    primary key (item_id, version)
);
create index item_version_content on item_version (content_hash);
create index item_version_original on item_version (original) where original is not null;
create table asset (
    item_id         uuid not null,
    version         int not null,
    hash            bytea not null,
    analyst         text not null,              -- the model that describes it
    state           text not null check (state in ('waiting', 'asking', 'described', 'failed')),
    text            text not null default '',
    error_code      text,
    error_message   text,
    primary key (item_id, version, hash),
    foreign key (item_id, version) references item_version on delete cascade
);
create index asset_described on asset (hash, analyst) where state = 'described';
create index asset_waiting on asset (item_id, version) where state in ('waiting', 'asking');
create table conversion (
    item_id         uuid not null,
    version         int not null,
    processor       text not null,
    remote_id       text,                       -- null while it is being started: it may have begun, or not
    checks          int not null default 0,     -- since the last progress
    waited          interval not null default '0', -- since the last progress
    progress        double precision not null default 0,
    position        int,
    primary key (item_id, version)
);
create sequence chunk_no;
create table chunk (
    base_id         uuid not null,
    item_id         uuid not null,
    version         int not null,
    index           int not null,
    id              uuid not null default uuidv7(),
    no              bigint not null default nextval('chunk_no'),
    text            text not null,
    text_hash       uuid,                       -- the first half of SHA-256: equal text reuses its vector
    start           int not null,               -- offsets into the canonical content, in characters
    "end"           int not null,
    page            int,                        -- where it begins, in documents with pages
    headings        text[] not null default '{}',
    embedding       halfvec not null,
    primary key (base_id, item_id, version, index)
) partition by list (base_id);
create index chunk_text on chunk (text_hash);
create unique index chunk_number on chunk (base_id, no);
create sequence segment_id;
create table segment (
    base_id         uuid not null references base on delete cascade,
    id              bigint not null default nextval('segment_id'),
    lexer_version   int not null,               -- what lexed it; segments of another version are rebuilt
    chunks          int not null,
    tokens          bigint not null,            -- the sum of the lengths, for BM25
    languages       text[] not null,            -- the stemmers that were applied
    nos             bytea not null,             -- int8 each
    items           bytea not null,             -- the low eight bytes of each chunk's item
    lengths         bytea not null,             -- in tokens, uint2 each
    signs           bytea not null,             -- the signs of each vector, one bit each
    terms           bytea not null default '',  -- search/lexicon.py documents the format of these three
    ordinals        bytea not null default '',
    counts          bytea not null default '',
    primary key (base_id, id)
);
alter table segment
    alter nos set storage external, alter items set storage external, alter lengths set storage external,
    alter signs set storage external, alter terms set storage external, alter ordinals set storage external,
    alter counts set storage external;
create table deleted_chunk (
    base_id         uuid not null references base on delete cascade,
    no              bigint not null,
    deleted_at      timestamptz not null default clock_now(),
    primary key (base_id, no)
);
create type job_state as enum ('queued', 'delayed', 'running', 'dead');
create table job (
    id              uuid primary key default uuidv7(),      -- also the order within a lane and priority
    kind            text not null,
    lane            text collate "C" not null,              -- fairness and caps count by lane
    priority        smallint not null default 1,            -- 0 interactive, 1 normal, 2 bulk
    state           job_state not null default 'queued',
    workload        real not null default 0,                -- estimated cost, in bytes of input
    key             text collate "C",                       -- unique among living jobs
    subject         uuid,                                   -- what the job is about; cancelling goes by it
    payload         jsonb not null default '{}',
    attempt         smallint not null default 0,            -- counted at the claim
    max_attempts    smallint not null default 5,
    run_at          timestamptz not null default clock_now(),
    lease           uuid,                                   -- new at every claim; every write of a result proves it
    worker          uuid,
    cancelling      boolean not null default false,
    errors          jsonb not null default '[]',            -- one entry per failed attempt, oldest first
    result          jsonb,                                  -- what the job reports, as far as it is done
    created_at      timestamptz not null default clock_now(),
    started_at      timestamptz
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0);
create index job_queued on job (lane, priority, id) where state = 'queued';
create index job_running on job (lane) where state = 'running';
create index job_delayed on job (run_at) where state = 'delayed';
create index job_delayed_lane on job (lane) where state = 'delayed';    -- delayed jobs count for the limits of the queue
create index job_dead on job (lane, id) where state = 'dead';
create unique index job_key on job (key) where key is not null and state <> 'dead';
create index job_subject on job (subject) where subject is not null;
create table job_history (
    id              uuid primary key,
    kind            text not null,
    lane            text collate "C" not null,
    subject         uuid,
    outcome         text not null check (outcome in ('done', 'cancelled')),
    priority        smallint not null,
    attempt         smallint not null,
    max_attempts    smallint not null,
    errors          jsonb not null,
    result          jsonb,
    created_at      timestamptz not null,
    started_at      timestamptz,
    finished_at     timestamptz not null
);
create index job_history_finished on job_history using brin (finished_at) with (pages_per_range = 16, autosummarize = on);
create index job_history_subject on job_history (subject, finished_at) where subject is not null;
create table worker (
    id              uuid primary key,
    info            jsonb not null default '{}',
    lock_key        int,                                    -- null: it holds no lock, and only its lease counts
    started_at      timestamptz not null default clock_now(),
    heartbeat_at    timestamptz not null default clock_now(),
    lease_until     timestamptz not null
);
create table lane (
    lane            text collate "C" primary key,
    weight          real not null default 1 check (weight > 0),
    cap             int check (cap >= 0),                   -- null: the claimer's default
    paused          boolean not null default false,
    virtual_time    double precision not null default 0,
    busy            boolean not null default false,         -- may have queued jobs
    urgent          boolean not null default false          -- may have queued jobs of priority 0
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
create index lane_busy on lane (virtual_time) where busy and not paused;
create index lane_urgent on lane (virtual_time) where urgent and not paused;
create table lane_owner (
    lane            text primary key,
    org_id          uuid not null references organisation
);
create index lane_owner_org on lane_owner (org_id);
insert into lane_owner (lane, org_id) values ('reconcile', '00000000-0000-7000-8000-000000000001');
create table schedule (
    name            text primary key,
    cron            text not null,
    next_at         timestamptz not null,
    last_at         timestamptz,
    kind            text not null,
    lane            text collate "C" not null,
    priority        smallint not null,
    max_attempts    smallint not null,
    key             text collate "C",
    subject         uuid,
    payload         jsonb not null
);
create index schedule_due on schedule (next_at);
create table outbox (
    n               bigint generated always as identity primary key,
    org_id          uuid not null,
    base_id         uuid,
    type            text not null,
    subject         uuid,                       -- the item, or whatever else it is about
    cause           uuid,
    data            jsonb not null default '{}',
    at              timestamptz not null default clock_now()
);
create table event (
    seq             bigint primary key,
    org_id          uuid not null,
    position        bigint not null,
    base_id         uuid,
    type            text not null,
    subject         uuid,
    cause           uuid,
    data            jsonb not null,
    at              timestamptz not null
);
create unique index event_org_position on event (org_id, position);
create index event_base_position on event (base_id, position);
create index event_at on event using brin (at) with (pages_per_range = 16, autosummarize = on);
create table event_head (seq bigint not null);
insert into event_head values (0);
create table event_position (
    org_id          uuid primary key references organisation,
    position        bigint not null
);
insert into event_position (org_id, position) values ('00000000-0000-7000-8000-000000000001', 0);
create table webhook (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null default '00000000-0000-7000-8000-000000000001' references organisation,
    url             text not null,
    description     text not null default '',
    secret          bytea not null,             -- encrypted by the vault
    base_id         uuid,                       -- null: all; no foreign key, because the end of a base is reported too
    types           text[],                     -- null: all
    status          text not null default 'active' check (status in ('active', 'paused')),
    cursor          bigint not null,
    wanted          bigint not null default 0,
    attempts        int not null default 0,     -- failed attempts at the next event
    failing_since   timestamptz,
    error_code      text,
    error_message   text,
    delivered       bigint not null default 0,
    delivered_at    timestamptz,
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create index webhook_org on webhook (org_id, id);
create table dead_letter (
    webhook_id      uuid not null references webhook on delete cascade,
    seq             bigint not null,
    type            text not null,
    base_id         uuid,
    attempts        int not null,
    error_code      text not null,
    error_message   text not null,
    died_at         timestamptz not null default clock_now(),
    outcome         text check (outcome in ('redriven', 'skipped')),
    primary key (webhook_id, seq)
);
create table connector (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null default '00000000-0000-7000-8000-000000000001' references organisation,
    name            text not null,
    type            text not null,              -- one of the registry: github, gitlab, jira, confluence
    config          jsonb not null,
    credentials     bytea not null,             -- encrypted by the vault
    schedule        text not null,              -- cron
    acl_schedule    text not null,              -- cron: permissions only
    enabled         boolean not null default true,
    acl             text[],                     -- null: the tool's permissions apply; else this list, for everything
    last_sync_status text,
    last_sync_at    timestamptz,
    last_sync_error_code text,
    last_sync_error text,
    rate_limited_until timestamptz,             -- while a run waits for the tool
    acl_as_of       timestamptz,                -- when all permissions were last resolved
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create unique index connector_name on connector (org_id, lower(name));
create index connector_org on connector (org_id, id);
create table connector_base (
    connector_id    uuid not null references connector on delete cascade,
    base_id         uuid not null references base on delete cascade,
    item_id         uuid references item on delete set null,
    filled          boolean not null default false, -- a container was filed: if it is gone, a user deleted it
    primary key (connector_id, base_id)
);
create index connector_base_base on connector_base (base_id);
create index connector_base_item on connector_base (item_id) where item_id is not null;
create table connector_run (
    id              uuid primary key default uuidv7(),
    connector_id    uuid not null references connector on delete cascade,
    job_id          uuid not null,              -- the job that runs it: an open run without a living job is an orphan
    trigger         text not null check (trigger in ('schedule', 'manual')),
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
create table connector_run_line (
    run_id          uuid not null references connector_run on delete cascade,
    no              bigint generated always as identity,
    at              timestamptz not null default clock_now(),
    level           text not null check (level in ('info', 'warning', 'error')),
    message         text not null,
    primary key (run_id, no)
);
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
create table connector_document (
    connector_id    uuid not null references connector on delete cascade,
    source_id       text collate "C" not null,
    scope           text collate "C" not null,
    kind            text collate "C" not null,
    locator         jsonb not null default '{}',
    hash            bytea not null,             -- SHA-256 of everything that is filed
    audience        text not null,
    seen            int not null default 0,     -- the stream's listing that last named it
    primary key (connector_id, source_id)
);
create index connector_document_stream on connector_document (connector_id, scope, kind, seen);
create index connector_document_audience on connector_document (connector_id, audience);
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
    primary key (connector_id, source_id)
);
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
    primary key (connector_id, key)
);
create table connector_identity (
    connector_id    uuid not null references connector on delete cascade,
    user_id         text collate "C" not null,
    name            text not null default '',
    email           text,
    primary key (connector_id, user_id)
);
create unlogged table provider (
    key          text primary key,             -- a hash of endpoint and API key: no secret is stored
    requests     double precision not null,    -- requests that may be sent now
    tokens       double precision not null,    -- tokens that may be sent now
    refilled_at  timestamptz not null default clock_now(),
    paused_until timestamptz not null default '-infinity',
    concurrency  double precision not null,    -- parallel requests that the provider seems to bear
    strikes      int not null default 0        -- consecutive requests to slow down
);
create unlogged table provider_portion (
    provider   text not null references provider (key) on delete cascade,
    holder     uuid not null,
    slots      int not null,                   -- 0 while it only waits: the others make room when they renew
    expires_at timestamptz not null,
    primary key (provider, holder)
);
create function item_subtree(p_roots uuid[]) returns table (id uuid, depth int) language sql stable as $$
    with recursive subtree(id, depth) as (
        select r.id, 0 from unnest(p_roots) r(id)
        union all
        select i.id, s.depth + 1 from item i join subtree s on i.parent_id = s.id)
    select id, max(depth) from subtree group by id
$$;
create function item_removable(p_roots uuid[], p_limit int) returns setof uuid
language sql stable set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    with recursive subtree(id) as (
        select i.id from item i where i.id = any (p_roots) and i.status = 'deleting'
        union all
        select i.id from subtree s join item i on i.parent_id = s.id)
    select s.id from subtree s where not exists (select from item c where c.parent_id = s.id) limit p_limit
$$;
create function container_derive_status(p_item uuid) returns boolean language plpgsql as $$
declare
    v_item item;
    v_status text;
    v_failed boolean;
    v_own_error boolean;
    v_warnings text[];
begin
    if exists (select from item i where i.id = p_item and not i.is_container) then
        return false;
    end if;
    select * into v_item from item i where i.id = p_item for no key update;
    if not found or v_item.status = 'deleting' or v_item.expanded_version < v_item.wanted_version then
        return false;
    end if;
    v_own_error := v_item.error_code is not null and v_item.error_code <> 'all_failed';
    v_failed := exists (select from item c where c.parent_id = p_item and c.status = 'failed');
    v_status := case
        when exists (select from item c where c.parent_id = p_item
                      and c.status in ('idle', 'preparing', 'processing', 'reading', 'embedding')) then 'processing'
        when v_own_error then 'failed'
        when exists (select from item c where c.parent_id = p_item and c.status = 'completed') then 'completed'
        when v_failed then 'failed'
        else 'completed' end;
    v_warnings := case when v_status = 'completed' and v_failed then array['some_failed'] else '{}' end;
    update item i
       set status = v_status, updated_at = clock_now(), warnings = v_warnings,
           error_code = case when v_own_error then i.error_code when v_status = 'failed' then 'all_failed' end,
           error_message = case when v_own_error then i.error_message
                                when v_status = 'failed' then 'All of its items failed.' end
     where i.id = p_item and (i.status, i.warnings) is distinct from (v_status, v_warnings);
    return found;
end $$;
create function item_derive_status(p_item uuid) returns void language plpgsql as $$
declare
    v_id uuid := p_item;
begin
    while v_id is not null and container_derive_status(v_id) loop
        select i.parent_id into v_id from item i where i.id = v_id;
    end loop;
end $$;
create function item_derive_statuses_above(p_items uuid[]) returns void language plpgsql as $$
declare
    v_due uuid[];
    v_next uuid;
    v_row record;
begin
    v_due := array(select distinct i.parent_id from item i where i.id = any (p_items) and i.parent_id is not null);
    for v_row in
        with recursive up(id, parent_id, above) as (
            select i.id, i.parent_id, 0 from item i where i.id = any (v_due)
            union
            select i.id, i.parent_id, 0 from item i join up on i.id = up.parent_id),
        deep(id, top, depth) as (
            select u.id, u.parent_id, 1 from up u
            union all
            select d.id, u.parent_id, d.depth + 1 from deep d join up u on u.id = d.top)
        select d.id, max(d.depth) as depth from deep d group by d.id order by 2 desc, 1
    loop
        if v_row.id = any (v_due) and container_derive_status(v_row.id) then
            select i.parent_id into v_next from item i where i.id = v_row.id;
            v_due := v_due || v_next;
        end if;
    end loop;
end $$;
create function item_progress(p_item uuid) returns real language sql stable as $$
    with recursive tree(id, is_container, status, wanted_version, expanded_version, weight) as (
        select i.id, i.is_container, i.status, i.wanted_version, i.expanded_version, 100::double precision
          from item i where i.id = p_item
        union all
        select c.id, c.is_container, c.status, c.wanted_version, c.expanded_version,
               t.weight / count(*) over (partition by t.id)
          from tree t join item c on c.parent_id = t.id and c.status <> 'deleting'
         where t.is_container and t.expanded_version >= t.wanted_version)
    select coalesce(sum(case
        when t.is_container then
            case when t.status in ('completed', 'failed') and not exists (
                select from item c where c.parent_id = t.id and c.status <> 'deleting') then t.weight else 0 end
        when t.status in ('completed', 'failed') then t.weight
        else t.weight * coalesce((select least(p.percent, 99) from progress p
                                   where p.item_id = t.id and p.version = t.wanted_version), 0) / 100 end), 0)::real
      from tree t
$$;
create function item_inherit_acl() returns trigger language plpgsql as $$
begin
    new.acl_from := case when new.acl is not null then new.id
                         when new.parent_id is not null then (select p.acl_from from item p where p.id = new.parent_id) end;
    return new;
end $$;
create trigger item_inherit_acl before insert on item for each row execute function item_inherit_acl();
create function item_set_acl(p_item uuid, p_acl text[]) returns void language plpgsql as $$
declare
    v_from uuid := p_item;
begin
    if p_acl is null then
        select p.acl_from into v_from from item i left join item p on p.id = i.parent_id where i.id = p_item;
    end if;
    with recursive below(id) as (
        select p_item
        union all
        select c.id from item c join below b on c.parent_id = b.id where c.acl is null)
    update item i
       set acl = case when i.id = p_item then p_acl else i.acl end, acl_from = v_from, updated_at = clock_now()
      from below where i.id = below.id;
end $$;
create function item_is_visible(p_principals text[], p_acl_from uuid, p_own text[], p_base text[]) returns boolean
    language sql immutable parallel safe as
    'select p_principals is null or coalesce(case when p_acl_from is null then p_base else p_own end && p_principals, false)';
create function item_searchable(p_base uuid, p_principals text[], p_types text[], p_under uuid[], p_metadata jsonb,
                                p_created_after timestamptz, p_created_before timestamptz,
                                p_updated_after timestamptz, p_updated_before timestamptz)
    returns table (id uuid, live_version int, title text, type text, source jsonb, metadata jsonb)
    language sql stable as $$
    select i.id, i.live_version, i.title, i.type, i.source, i.metadata
      from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where i.base_id = p_base and i.live_version is not null and i.status <> 'deleting' and b.status <> 'deleting'
       and item_is_visible(p_principals, i.acl_from, o.acl, b.acl)
       and (p_types is null or i.type = any (p_types))
       and (p_under is null or i.id in (select s.id from item_subtree(p_under) s))
       and (p_metadata is null or i.metadata @> p_metadata)
       and (p_created_after is null or i.created_at >= p_created_after)
       and (p_created_before is null or i.created_at < p_created_before)
       and (p_updated_after is null or i.updated_at >= p_updated_after)
       and (p_updated_before is null or i.updated_at < p_updated_before)
$$;
create function connector_acl(p_audience connector_audience) returns text[] language sql stable as $$
    select case when not p_audience.complete then '{}'::text[] else array(
        select 'org:*' where p_audience.everybody
        union select 'user_email:' || lower(e) from unnest(p_audience.emails) e
        union select 'user_email:' || lower(i.email) from connector_identity i
               where i.connector_id = p_audience.connector_id and i.user_id = any (p_audience.users) and i.email is not null
        union select 'group:' || g from unnest(p_audience.groups) g
        order by 1) end
$$;
create function connector_apply_audiences(p_connector uuid, p_keys text[], p_sources text[]) returns int language plpgsql as $$
declare
    v_changed int;
begin
    update connector_audience a set acl = connector_acl(a)
     where a.connector_id = p_connector and a.key = any (p_keys) and a.acl is distinct from connector_acl(a);
    if (select c.acl is not null from connector c where c.id = p_connector) then
        return 0;   -- one list for everything, on the containers
    end if;
    select count(item_set_acl(t.id, t.acl)) into v_changed from (
        select i.id, a.acl from connector_audience a
          join connector_document d on d.connector_id = a.connector_id and d.audience = a.key
          join connector_base b on b.connector_id = a.connector_id
          join item i on i.parent_id = b.item_id and i.type = 'record' and i.source_key = d.source_id
                     and i.status <> 'deleting'
         where a.connector_id = p_connector and a.key = any (p_keys) and i.acl is distinct from a.acl
           and (p_sources is null or d.source_id = any (p_sources))
         order by i.id for no key update of i) t;
    return v_changed;
end $$;
create function item_acl_as_of(p_item item) returns timestamptz language sql stable as $$
    select case when p_item.type = 'record' then (
        select a.as_of from connector_document d
          join connector c on c.id = d.connector_id and c.acl is null
          join connector_audience a on a.connector_id = d.connector_id and a.key = d.audience
         where d.connector_id = (p_item.source ->> 'connectorId')::uuid and d.source_id = p_item.source_key) end
$$;
create function base_lock(p_base uuid) returns void language sql as
    'select pg_advisory_xact_lock(hashtextextended(p_base::text, 1735551596))';
create function base_lock_shared(p_base uuid) returns void language sql as
    'select pg_advisory_xact_lock_shared(hashtextextended(p_base::text, 1735551596))';
create function base_manage_partition() returns trigger language plpgsql as $$
declare
    v_suffix text := replace(coalesce(new.id, old.id)::text, '-', '');
begin
    if tg_op = 'INSERT' then
        execute format('create table %I (like chunk including defaults including constraints)', 'chunk_' || v_suffix);
        execute format('alter table chunk attach partition %I for values in (%L)', 'chunk_' || v_suffix, new.id);
    else
        execute format('drop table %I', 'chunk_' || v_suffix);
    end if;
    return null;
end $$;
create trigger base_manage_partition after insert or delete on base for each row execute function base_manage_partition();
create function base_record_owner() returns trigger language plpgsql as $$
begin
    insert into lane_owner (lane, org_id) values (new.id::text, new.org_id) on conflict do nothing;
    return null;
end $$;
create trigger base_record_owner after insert on base for each row execute function base_record_owner();
create function base_mark_ready(p_base uuid, out completed int, out failed int) returns record language plpgsql as $$
begin
    perform pg_advisory_xact_lock(hashtextextended(p_base::text, 1701147252));
    if exists (select from item i where i.base_id = p_base
                  and i.status in ('idle', 'preparing', 'processing', 'reading', 'embedding')) then
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
       and not exists (select from item_version v where v.original = p_hash)
       and not exists (select from attachment a where a.blob_hash = p_hash)
       and not exists (select from content_asset a where a.blob_hash = p_hash)
$$;
create function job_cost(workload real) returns double precision
    language sql immutable parallel safe as 'select 1 + workload::double precision / 65536';
create function lane_wake(p_lanes text[], p_urgent text[]) returns void language plpgsql as $$
begin
    insert into lane (lane) select distinct u.lane from unnest(p_lanes) u(lane) order by 1 on conflict do nothing;
    perform from lane l where l.lane = any (p_lanes) order by l.lane for key share;
    update lane l
       set busy = true,
           urgent = l.urgent or l.lane = any (p_urgent),
           virtual_time = case when l.busy then l.virtual_time
                         else greatest(l.virtual_time, (select min(b.virtual_time) from lane b where b.busy and not b.paused)) end
      from (select w.lane from lane w
             where w.lane = any (p_lanes) and (not w.busy or (w.lane = any (p_urgent) and not w.urgent))
             order by w.lane for no key update) w
     where l.lane = w.lane;
end $$;
create function job_enqueue(p_jobs json, p_count int, p_lanes text[], p_urgent text[])
returns table (id uuid, created boolean) language plpgsql as $$
#variable_conflict use_column
declare
    v_ids uuid[] := array(select uuidv7() from generate_series(1, p_count));
    v_keys text[];
    v_new int;
begin
    perform lane_wake(p_lanes, p_urgent) where cardinality(p_lanes) > 0;
    perform pg_notify('job', '');
    loop
        insert into job (id, kind, lane, priority, workload, key, subject, payload, max_attempts, state, run_at)
        select v_ids[u.n], u.kind, u.lane, u.priority, u.workload, u.key, u.subject, u.payload, u.attempts,
               case when u.delay is null then 'queued' else 'delayed' end::job_state,
               clock_now() + coalesce(u.delay, '0')
          from rows from (json_to_recordset(p_jobs) as (kind text, lane text, priority smallint, workload real, key text,
                          subject uuid, payload jsonb, attempts smallint, delay interval)) with ordinality
               as u(kind, lane, priority, workload, key, subject, payload, attempts, delay, n)
         where v_new is null or not exists (select from job j where j.id = v_ids[u.n])
        on conflict (key) where key is not null and state <> 'dead' do nothing;
        if v_new is null then
            get diagnostics v_new = row_count;
            if v_new = p_count then
                return query select u.id, true from unnest(v_ids) u(id);
                return;
            end if;
            v_keys := array(select j ->> 'key' from json_array_elements(p_jobs) j);
        end if;
        exit when not exists (
            select from unnest(v_ids, v_keys) u(id, key)
             where not exists (select from job j where j.id = u.id)
               and not exists (select from job j where j.key = u.key and j.state <> 'dead'));
    end loop;
    return query
        select coalesce(mine.id, other.id), mine.id is not null
          from unnest(v_ids, v_keys) with ordinality u(id, key, n)
          left join job mine on mine.id = u.id
          left join job other on other.key = u.key and other.state <> 'dead'
         order by u.n;
end $$;
create function lane_free_slots(p_lane text, p_cap int) returns int
    language sql stable as $$
    select p_cap - count(*)::int from (select from job r where r.lane = p_lane and r.state = 'running' limit p_cap) r
$$;
create function lane_lock_next(p_limit int, p_cap int, p_urgent boolean, p_not text[]) returns text[]
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off as $$
begin
    if p_urgent then
        return array(
            select l.lane from lane l
             where l.urgent and not l.paused and l.lane <> all (p_not) and lane_free_slots(l.lane, coalesce(l.cap, p_cap)) > 0
             order by l.virtual_time limit p_limit for no key update skip locked);
    end if;
    return array(
        select l.lane from lane l
         where l.busy and not l.paused and l.lane <> all (p_not) and lane_free_slots(l.lane, coalesce(l.cap, p_cap)) > 0
         order by l.virtual_time limit p_limit for no key update skip locked);
end $$;
create function lane_start_jobs(p_lanes text[], p_worker uuid, p_limit int, p_cap int, p_priority int)
returns table (id uuid, kind text, lane text, priority smallint, payload jsonb, subject uuid, attempt smallint,
               max_attempts smallint, lease uuid, interrupted boolean)
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
    v_lease uuid := gen_random_uuid();
    v_each int := case when cardinality(p_lanes) = 1 then p_limit else 1 + 2 * p_limit / cardinality(p_lanes) end;
    v_rows tid[];
    v_of text[];
    v_costs double precision[];
    v_dry text[];
begin
    with room as materialized (
        select l.lane, l.virtual_time, l.weight, lane_free_slots(l.lane, coalesce(l.cap, p_cap)) as free
          from lane l where l.lane = any (p_lanes)),
    head as materialized (
        select r.lane, h.row, h.cost, r.virtual_time + h.before as start, h.row is null or h.last and not h.full as dry
          from room r
          left join lateral (
            select q.ctid as row, q.cost, sum(q.cost) over w - q.cost as before,
                   row_number() over w = count(*) over () as last,
                   count(*) over () = least(r.free, v_each) as full
              from (select j.ctid, j.priority, j.id, job_cost(j.workload) / r.weight as cost from job j
                     where j.lane = r.lane and j.state = 'queued' and j.priority <= p_priority
                     order by j.priority, j.id limit least(r.free, v_each)) q
            window w as (order by q.priority, q.id)) h on true
         where r.free > 0),
    picked as (
        select h.row, h.lane, h.cost from head h where h.row is not null order by h.start limit p_limit)
    select array_agg(p.row), array_agg(p.lane), array_agg(p.cost),
           (select array_agg(h.lane) from head h where h.dry)
      into v_rows, v_of, v_costs, v_dry from picked p;
    if v_rows is not null then
        return query
        with locked as materialized (   -- a job that is being cancelled is skipped, not waited for
            select j.ctid as row, u.cost from unnest(v_rows, v_costs) u(row, cost)
              join job j on j.ctid = u.row and j.state = 'queued' for update of j skip locked),
        started as (
            update job j
               set state = 'running', attempt = j.attempt + 1, lease = v_lease, worker = p_worker, started_at = clock_now()
              from locked where j.ctid = locked.row
            returning j.id, j.kind, j.lane, j.priority, j.payload, j.subject, j.attempt, j.max_attempts, j.lease, locked.cost,
                      coalesce(j.errors -> -1 ->> 'code' in ('worker_lost', 'worker_stopped'), false) as interrupted),
        charged as (
            update lane l set virtual_time = l.virtual_time + s.cost
              from (select started.lane, sum(started.cost) as cost from started group by 1) s where l.lane = s.lane)
        select s.id, s.kind, s.lane, s.priority, s.payload, s.subject, s.attempt, s.max_attempts, s.lease, s.interrupted
          from started s;
    end if;
    if v_dry is not null then
        perform lane_sleep(v_dry);
    end if;
end $$;
create function lane_sleep(p_lanes text[]) returns void
language plpgsql set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    v_free text[] := array(
        select l.lane from lane l where l.lane = any (p_lanes) order by l.lane for update skip locked);
begin
    update lane l
       set busy = exists (select from job j where j.lane = l.lane and j.state = 'queued'),
           urgent = exists (select from job j where j.lane = l.lane and j.state = 'queued' and j.priority = 0)
     where l.lane = any (v_free);
end $$;
create function job_claim(p_worker uuid, p_limit int, p_general int, p_cap int, p_global_cap int)
returns table (id uuid, kind text, lane text, priority smallint, payload jsonb, subject uuid, attempt smallint,
               max_attempts smallint, lease uuid, interrupted boolean)
language plpgsql as $$
#variable_conflict use_column
declare
    v_lanes text[];
    v_seen text[] := '{}';
    v_left int := p_limit;
    v_got int := 0;
begin
    if p_global_cap is not null then    -- an exact cap over all workers needs a lock
        perform pg_advisory_xact_lock(hashtext('gristmill.claim'));
        select least(v_left, p_global_cap - count(*)) into v_left
          from (select from job r where r.state = 'running' limit p_global_cap) r;
    end if;
    if v_left > 0 and exists (select from lane l where l.urgent and not l.paused) then
        v_lanes := lane_lock_next(v_left, p_cap, true, '{}');
        if v_lanes <> '{}' then
            return query select * from lane_start_jobs(v_lanes, p_worker, v_left, p_cap, 0);
            get diagnostics v_got = row_count;
        end if;
    end if;
    v_left := least(v_left - v_got, p_general);
    while v_left > 0 loop
        v_lanes := lane_lock_next(v_left, p_cap, false, v_seen);
        exit when v_lanes = '{}';
        return query select * from lane_start_jobs(v_lanes, p_worker, v_left, p_cap, 2);
        get diagnostics v_got = row_count;
        exit when v_got > 0;            -- else they had no jobs, and have left the round-robin: try the next
        v_seen := v_seen || v_lanes;    -- … or an enqueue into them is under way, and they have not
    end loop;
end $$;
create function job_complete(p_ids uuid[], p_leases uuid[]) returns setof uuid language sql as $$
    with gone as (
        delete from job j using unnest(p_ids, p_leases) d(id, lease)
         where j.id = d.id and j.lease = d.lease and j.state = 'running'
        returning j.id, j.kind, j.lane, j.subject, j.priority, j.attempt, j.max_attempts, j.errors, j.result, j.created_at,
                  j.started_at)
    insert into job_history (id, kind, lane, subject, outcome, priority, attempt, max_attempts, errors, result, created_at,
                             started_at, finished_at)
    select g.id, g.kind, g.lane, g.subject, 'done', g.priority, g.attempt, g.max_attempts, g.errors, g.result, g.created_at,
           g.started_at, clock_now() from gone g
    returning id
$$;
create function job_complete_and_claim(p_done uuid[], p_leases uuid[], p_worker uuid, p_limit int, p_general int, p_cap int,
                          p_global_cap int)
returns table (id uuid, kind text, lane text, priority smallint, payload jsonb, subject uuid, attempt smallint,
               max_attempts smallint, lease uuid, interrupted boolean)
language plpgsql as $$
begin
    if cardinality(p_done) > 0 then
        perform job_complete(p_done, p_leases);
    else
        set local synchronous_commit = off;
    end if;
    if p_limit > 0 then
        return query select * from job_claim(p_worker, p_limit, p_general, p_cap, p_global_cap);
    end if;
end $$;
create function job_requeue(p_ids uuid[], p_delay interval, p_counted boolean, p_error jsonb) returns int
language plpgsql as $$
declare
    v_lanes text[];
    v_urgent text[];
begin
    perform job_archive_cancelled(array(select j.id from job j where j.id = any (p_ids) and j.state = 'running' and j.cancelling));
    with back as (
        update job j
           set state = case when p_delay > interval '0' then 'delayed' else 'queued' end::job_state,
               run_at = clock_now() + p_delay, lease = null, worker = null,
               attempt = j.attempt - case when p_counted then 0 else 1 end,
               errors = case when p_error is null then j.errors
                             else j.errors || (p_error || jsonb_build_object('at', clock_now(), 'attempt', j.attempt)) end
         where j.id = any (p_ids) and j.state = 'running' and not j.cancelling
        returning j.lane, j.priority)
    select array_agg(distinct b.lane), array_agg(distinct b.lane) filter (where b.priority = 0)
      into v_lanes, v_urgent from back b;
    if v_lanes is not null and p_delay <= interval '0' then
        perform lane_wake(v_lanes, coalesce(v_urgent, '{}'));
        perform pg_notify('job', '');
    end if;
    return cardinality(p_ids);
end $$;
create function job_archive_cancelled(p_ids uuid[]) returns int language sql as $$
    with gone as (
        delete from job j where j.id = any (p_ids)
        returning j.id, j.kind, j.lane, j.subject, j.priority, j.attempt, j.max_attempts, j.errors, j.result, j.created_at,
                  j.started_at),
    kept as (
        insert into job_history (id, kind, lane, subject, outcome, priority, attempt, max_attempts, errors, result, created_at,
                             started_at, finished_at)
        select g.id, g.kind, g.lane, g.subject, 'cancelled', g.priority, g.attempt, g.max_attempts, g.errors, g.result, g.created_at, g.started_at,
               clock_now()
          from gone g returning 1)
    select count(*)::int from kept
$$;
create function job_cancel(p_ids uuid[]) returns table (removed int, signalled int) language plpgsql as $$
begin
    removed := job_archive_cancelled(array(
        select j.id from job j where j.id = any (p_ids) and j.state in ('queued', 'delayed') order by j.id for update));
    with hit as (
        select j.id from job j where j.id = any (p_ids) and j.state = 'running' order by j.id for no key update),
    asked as (update job j set cancelling = true from hit where j.id = hit.id returning j.worker)
    select coalesce(sum(n.jobs), 0) into signalled from (
        select a.jobs, pg_notify('job_cancel', a.worker::text)
          from (select worker, count(*) as jobs from asked group by 1) a) n;
    return next;
end $$;
create function job_tick() returns table (promoted int, expired int, next_in interval)
language plpgsql set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    v_lanes text[];
    v_urgent text[];
begin
    promoted := 0; expired := 0;
    if pg_try_advisory_xact_lock(hashtext('gristmill.tick')) then
        with due as (
            select j.id from job j where j.state = 'delayed' and j.run_at <= clock_now()
             order by j.run_at limit 1000 for update skip locked),
        up as (update job j set state = 'queued' from due where j.id = due.id returning j.lane, j.priority)
        select count(*), array_agg(distinct up.lane), array_agg(distinct up.lane) filter (where up.priority = 0)
          into promoted, v_lanes, v_urgent from up;
        if promoted > 0 then
            perform lane_wake(v_lanes, coalesce(v_urgent, '{}'));
            perform pg_notify('job', '');
        end if;
        delete from worker w
         where w.lease_until < clock_now()
            or (w.heartbeat_at < clock_now() - interval '3 seconds' and w.lock_key is not null and not exists (
                    select from pg_locks l
                     where l.locktype = 'advisory' and l.objsubid = 2 and l.granted
                       and l.classid = 1735551596 and l.objid = w.lock_key
                       and l.database = (select oid from pg_database where datname = current_database())));
        expired := job_requeue(array(
            select j.id from job j
             where j.state = 'running' and not exists (select from worker w where w.id = j.worker)
             order by j.id for update skip locked), '0', true,
            '{"code": "worker_lost", "message": "The worker that ran this job is gone."}');
    end if;
    select j.run_at - clock_now() into next_in from job j where j.state = 'delayed' order by j.run_at limit 1;
    return next;
end $$;
create function event_sequence(p_limit int) returns int language plpgsql as $$
declare
    v_rows bigint[];
    v_last bigint;
begin
    if not pg_try_advisory_xact_lock(hashtext('gristmill.events')) then
        return -1;
    end if;
    v_rows := array(select o.n from outbox o order by o.n limit p_limit);
    if v_rows = '{}' then
        return 0;
    end if;
    update event_head h set seq = h.seq + cardinality(v_rows) returning h.seq - cardinality(v_rows) into v_last;
    with taken as (
        delete from outbox o where o.n = any (v_rows) returning o.*)
    insert into event (seq, org_id, position, base_id, type, subject, cause, data, at)
    select v_last + row_number() over (order by t.n), t.org_id,
           coalesce(p.position, 0) + row_number() over (partition by t.org_id order by t.n),
           t.base_id, t.type, t.subject, t.cause, t.data, t.at
      from taken t left join event_position p on p.org_id = t.org_id order by t.n;
    insert into event_position (org_id, position)
    select e.org_id, max(e.position) from event e where e.seq > v_last group by e.org_id
        on conflict (org_id) do update set position = excluded.position;
    return cardinality(v_rows);
end $$;
create view item_row as
select i.id, i.base_id, i.parent_id, i.type, i.title, i.status, i.error_code, i.error_message, i.warnings, i.source,
       i.size_bytes, i.wanted_version, i.live_version, i.chunk_count, i.left_out, i.created_at, i.updated_at,
       case when i.status in ('completed', 'deleting') then null
            when i.is_container then item_progress(i.id)
            else (select p.percent from progress p where p.item_id = i.id and p.version = i.wanted_version) end as percent,
       case when i.status not in ('completed', 'failed', 'deleting') then
            (select p.note from progress p where p.item_id = i.id and p.version = i.wanted_version) end as waiting_for,
       i.acl, i.metadata, item_acl_as_of(i) as acl_as_of, i.acl_from
  from item i;
