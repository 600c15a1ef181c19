-- Bases, the tree of items in them, and the contents of documents.

-- owner: catalog
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
    index_kind      text not null default 'embedded' check (index_kind in ('embedded', 'opensearch')), -- it answers searches
    description     text not null default '',
    metadata        jsonb not null default '{}',
    expire_days     int check (expire_days > 0), -- how long after its last use it expires; null: never
    last_active_at  timestamptz not null default clock_now(), -- the last search or change of its items, to the minute
    expires_at      timestamptz,                -- from then on it is not searched any more, and soon deleted
    index_fill      text check (index_fill in ('embedded', 'opensearch')), -- it is being filled, to take over; null: none
    chunk_set       uuid not null,              -- the chunks that searches read; that of a new base has the base's own id
    switching_until timestamptz,                -- until then nothing is published: another set of chunks is about to take over
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now(),
    refresh         jsonb,                      -- when sources are checked, {"every": "1d"} or {"cron": …}; null: never by themselves
    suggested_embedder text                     -- which embedder the last event suggested; null: none
);
-- The name of a base that is being deleted is free at once.
create unique index base_name on base (org_id, lower(name)) where status <> 'deleting';
create index base_org on base (org_id, id);
create index base_embedder on base (org_id, embedder_identity, id);    -- whose vectors can be reused?
create index base_expires on base (expires_at) where expires_at is not null;
create index base_not_ready on base (status, id) where status <> 'ready';

-- owner: catalog
-- What entries of a base's access list may do. An entry without a row gives whoever it names their own role.
create table base_share (
    base_id         uuid not null references base on delete cascade,
    principal       text not null,              -- as in the access list
    role            text not null check (role in ('reader', 'editor', 'owner')),
    created_at      timestamptz not null default clock_now(),
    primary key (base_id, principal)
);

-- owner: catalog
-- All chunks of a base, made with one embedder and one way of chunking. Searches read one set of a base, wholly; another one is
-- being built to take over, or is kept to go back to. The columns of the live set are those of its base.
--
--     building ──▶ live ◀──▶ kept ──▶ removing ──▶ ()
create table chunk_set (
    id              uuid primary key default uuidv7(),
    base_id         uuid not null references base on delete cascade,
    state           text not null default 'live' check (state in ('building', 'live', 'kept', 'removing')),
    embedder        text not null,
    embedder_identity text not null,
    dimensions      int not null,
    chunking        jsonb not null,
    changed_at      timestamptz not null default clock_now() -- since when it has its state
);
create index chunk_set_base on chunk_set (base_id);
create unique index chunk_set_live on chunk_set (base_id) where state = 'live';
create index chunk_set_other on chunk_set (state, changed_at) where state <> 'live';

-- owner: contents
-- Original bytes, by their hash. A name in the object store is used once, so that a deletion by a name that was read a
-- moment ago can't hit equal bytes that were stored since.
create table blob (
    hash            bytea primary key,          -- SHA-256
    size            bigint not null,
    name            text not null,              -- in the object store
    touched_at      timestamptz not null default clock_now() -- stored or reused: unused blobs stay a while after it
);

-- owner: contents
-- Names in the object store that belong to no blob: not yet, while an upload is under way, or no longer.
--
--     announce → pending ── keep ──▶ a blob's name
--                   │ due                 │ nothing uses it
--                   └────▶ deleting ◀─────┘ ──▶ removed from the store, then from this table
create table pending_blob_name (
    name            text collate "C" primary key,
    deleting        boolean not null,           -- no upload may keep it any more
    due_at          timestamptz not null default clock_now()
);
create index pending_blob_name_deleting on pending_blob_name (name) where deleting;

-- owner: catalog
create table item (
    id              uuid primary key default uuidv7(),
    base_id         uuid not null references base on delete cascade,
    parent_id       uuid references item on delete cascade,
    type            text not null check (type in ('directory', 'sitemap', 'site', 'connector', 'file', 'url', 'note', 'record')),
    title           text not null,
    -- idle → preparing | processing → reading → embedding → completed | failed; any → deleting
    status          text not null check (status in
        ('idle', 'preparing', 'processing', 'reading', 'embedding', 'completed', 'failed', 'deleting')),
    -- Something is still to be done for it. Every query and index asks for this, never for a list of statuses.
    is_active       boolean not null generated always as (status not in ('completed', 'failed', 'deleting')) stored,
    error_code      text,
    error_message   text,
    warnings        text[] not null default '{}',
    source          jsonb not null default '{}', -- where it comes from: {"path": …}, {"url": …} or {"name": …}
    source_key      text not null,              -- its identity among its siblings: path, address, name or title
    blob_hash       bytea references blob,      -- the bytes of an uploaded file, or of a page as a crawl fetched it
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
    metadata        jsonb not null default '{}', -- as people and connectors set it
    document        jsonb not null default '{}', -- what the document of the live version says of itself: {"title": …, "authors": …}
    -- What searches filter by: the metadata, with the document's fields below "document"; those that people set there win.
    filterable      jsonb not null generated always as (case when document = '{}' then metadata else jsonb_set(metadata, '{document}',
        document || case jsonb_typeof(metadata -> 'document') when 'object' then metadata -> 'document' else '{}' end) end) stored,
    -- What keyword search indexes with every chunk; `catalog.index_title` returns the same. Long lists are cut: they would
    -- make every chunk longer, and so rank lower.
    index_title     text not null generated always as (title
        || case when strpos(lower(title), lower(document ->> 'title')) = 0 then ' ' || (document ->> 'title') else '' end
        || coalesce(' ' || left(document ->> 'authors', 100), '') || coalesce(' ' || left(document ->> 'keywords', 200), '')) stored,
    chunking        jsonb not null default '{}', -- what differs from the base's
    file_id         uuid,                       -- the file that it was made from; null: a file of its own, with its id
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now(),
    fingerprint     text,                       -- files on the disk: device, inode, size and time of the last change, as last listed
    is_container    boolean not null generated always as (type in ('directory', 'sitemap', 'site', 'connector')) stored,
    titled_by_source boolean not null default false -- pages that no one named: their title is what the live version calls itself
);
create index item_tree on item (base_id, parent_id, id);
create index item_status on item (base_id, status);
create index item_children on item (parent_id, status) where parent_id is not null;
create index item_active_children on item (parent_id) where is_active; -- a container's status is derived from these
create index item_key on item (base_id, parent_id, type, md5(source_key));
create index item_deleting on item (base_id) where status = 'deleting';
create index item_blob on item (blob_hash) where blob_hash is not null;
create index item_file on item (file_id) where file_id is not null;
create index item_file_order on item (base_id, (coalesce(file_id, id))) where not is_container; -- documents as files of a store
create index item_updated on item (updated_at);             -- the stream of item updates
create index item_acl on item using gin (acl) where acl is not null;
create index item_acl_from on item (base_id, acl_from) where acl is null; -- who inherits this list?
create index item_own_acl on item (base_id) where acl is not null;      -- does a base hide anything from a caller?
create index item_filterable on item using gin (filterable jsonb_path_ops);
-- The reconciler reads these: few rows while the system is idle, however many items there are.
create index item_active on item (base_id, id) where is_active;
create index item_container on item (base_id, id) where is_container;
create index item_cause_active on item (cause) where is_active;
-- One record per document in each container.
create unique index item_record on item (parent_id, source_key) where type = 'record' and status <> 'deleting';
-- A file with the fingerprint of another one whose path is gone was moved.
create index item_fingerprint on item (base_id, fingerprint) where fingerprint is not null;

-- owner: catalog
-- When the source of an item is checked again: of folders, files on the disk, sitemaps and sites that people added, and of pages.
-- A table of its own, because a check that finds no change writes nothing else.
create table item_refresh (
    item_id         uuid primary key references item on delete cascade,
    base_id         uuid not null,
    rule            jsonb not null,             -- {"every": "1d"}, {"every": "never"} or {"cron": …}
    origin          text not null check (origin in ('item', 'container', 'base')), -- who sets the rule
    next_at         timestamptz,                -- null: never
    unchanged       smallint not null default 0, -- checks in a row without a change: more of them, fewer checks
    checked_at      timestamptz,
    error_code      text,                       -- why the last check failed …
    error_message   text                        -- … and what to do
);
create index item_refresh_due on item_refresh (base_id, next_at) where next_at is not null;

-- owner: catalog
-- Sources that people deleted from a container: its listings leave them out until they are added again.
create table exclusion (
    id              uuid primary key default uuidv7(),
    base_id         uuid not null references base on delete cascade,
    root_id         uuid not null references item on delete cascade, -- the container that people added
    type            text not null,
    source_key      text not null,              -- path, address or record id; of a folder, everything below it too
    title           text not null,
    created_at      timestamptz not null default clock_now(),
    fingerprint     text                        -- files on the disk: as they were last seen
);
create unique index exclusion_source on exclusion (root_id, type, md5(source_key));
create index exclusion_base on exclusion (base_id, id);

-- owner: catalog
-- Folders that people added, and which worker watches them. Whoever has the lease applies changes; without it, nothing is written.
create table folder_watch (
    item_id         uuid primary key references item on delete cascade,
    wanted          boolean,                    -- null: if the folder is on a local disk and not too large
    state           text not null default 'waiting' check (state in ('waiting', 'watching', 'unavailable', 'off')),
    reason_code     text,                       -- why it is not watched …
    reason          text,                       -- … in words
    owner           uuid,
    lease_until     timestamptz,
    changed_at      timestamptz not null default clock_now()
);
create index folder_watch_free on folder_watch (lease_until) where state <> 'off';

-- owner: catalog
-- Items whose live version is not in a set of chunks that is being built or kept. Whoever publishes a version, or adds chunks to
-- one, adds its item here for every such set of the base, in the same transaction; whoever writes its last chunk into the set
-- deletes it. So a set without a row is complete, and can take over at once.
create table missing_item (
    set_id          uuid not null references chunk_set on delete cascade,
    item_id         uuid not null references item on delete cascade,
    primary key (set_id, item_id)
);
create index missing_item_item on missing_item (item_id);

-- owner: catalog
-- The exchange of a base's chunks for those of another embedder or another chunking. A job works on the first two states.
--
--     building ──▶ comparing ──▶ waiting ── approve ─▶ building ──▶ switched
--        │             │ │          │                     ▲
--        │             │ └─▶ refused ─────── approve ─────┤
--        │             └──────── as good ─────────────────┘
--        └── cancel ───┴── of any but the last ──▶ cancelled
create table swap (
    id              uuid primary key default uuidv7(),
    base_id         uuid not null references base on delete cascade,
    set_id          uuid not null,              -- that is to take over
    previous_set    uuid not null,              -- that answers until then
    embedder        text not null,
    previous_embedder text not null,
    gate            text not null check (gate in ('auto', 'ask', 'off')),
    state           text not null default 'building' check (state in
        ('building', 'comparing', 'waiting', 'switched', 'refused', 'cancelled')),
    is_approved     boolean not null default false, -- it takes over as soon as nothing is missing
    is_revert       boolean not null default false, -- back to a set that answered before
    is_refreshed    boolean not null default false, -- after the switch: the items show the counts of the new chunks
    items           int not null,               -- that were missing at the start
    embedded        int not null default 0,     -- texts
    reused          int not null default 0,     -- texts whose vectors were known
    tokens          bigint not null default 0,  -- of the embedded texts
    report          jsonb,                      -- of the comparison
    error_code      text,
    error_message   text,
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create index swap_base on swap (base_id, id desc);
create unique index swap_open on swap (base_id) where state in ('building', 'comparing', 'waiting');

-- owner: catalog
-- How far documents are that are being processed. Unlogged: after a crash they start over anyway.
create unlogged table progress (
    item_id         uuid primary key,
    version         int not null,
    percent         real not null,
    note            text,                       -- what it is waiting for …
    note_code       text,                       -- … as a code …
    noted_at        timestamptz,                -- … since when …
    next_at         timestamptz,                -- … and when that is tried again
    updated_at      timestamptz not null default clock_now()
);

-- ── contents ─────────────────────────────────────────────────────────────────────────────────────────────

-- owner: contents
-- Canonical content (markdown) by what it was made from and what made it; shared by all items with equal content.
create table content (
    hash            bytea primary key,          -- SHA-256 of (SHA-256 of the input, reader and its version)
    characters      bigint,                     -- null until all parts are stored
    warnings        text[] not null default '{}', -- of its reader
    document        jsonb not null default '{}', -- what the document says of itself
    created_at      timestamptz not null default clock_now()
);

-- owner: contents
-- The text of a content, in bounded parts, so that no text has to be held in memory as a whole.
create table content_part (
    content_hash    bytea not null references content on delete cascade,
    start           bigint not null,            -- in characters
    text            text not null,
    page            int,
    boxes           bytea,                      -- where the text stands on its page (readers/text_boxes.py)
    primary key (content_hash, start)
);

-- owner: contents
-- Documents inside a document, as its reader found them; kept with the content, so that nothing is unpacked twice.
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

-- owner: contents
-- Images and tables inside a document, as its reader found them, each once by its bytes.
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

-- owner: contents
-- One generation of an item, from being read to being searchable.
create table item_version (
    item_id         uuid not null references item on delete cascade,
    version         int not null,
    content_hash    bytea not null references content,
    recipe          text,                       -- what chunked and embedded it; null: not known
    timeline        jsonb not null default '{}',
    analysed        boolean not null default false, -- it was announced that all of its assets are described
    original        bytea references blob,      -- the bytes of a page as it was fetched …
    validators      jsonb not null default '{}', -- … and its validators for conditional requests
    created_at      timestamptz not null default clock_now(),
    changed_at      timestamptz not null default clock_now(), -- since when the item has this content: a reindex keeps it
    replaced_at     timestamptz,                -- when a newer one took over, if this one is kept
    primary key (item_id, version)
);
create index item_version_content on item_version (content_hash);
create index item_version_original on item_version (original) where original is not null;
create index item_version_replaced on item_version (replaced_at) where replaced_at is not null;

-- owner: contents
-- The description of an image in a version: waiting → asking → described | failed; waiting → described, when equal bytes
-- were described before. `asking` is committed before the paid call: an image found in this state may have been paid for.
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

-- owner: contents
-- A conversion at a file processor: () → starting → under way → (). No foreign key: it is cancelled after its item is gone.
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
