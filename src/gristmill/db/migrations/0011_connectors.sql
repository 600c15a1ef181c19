-- Connectors: tools of a team that are followed, what is known of their documents, and how each run went.

create table connector (
    id              uuid primary key default uuidv7(),
    name            text not null,
    type            text not null,              -- a kind of connectors/kinds.py
    config          jsonb not null,
    credentials     bytea not null,             -- sealed by the vault
    schedule        text not null,              -- cron
    acl_schedule    text not null,              -- cron: permissions alone
    enabled         boolean not null default true,
    acl             text[],                     -- null: who sees it there sees it here; else these, for all of it
    -- running → success | completed_with_errors | partial | failed | cancelled; null before the first run
    last_sync_status text,
    last_sync_at    timestamptz,
    last_sync_error_code text,
    last_sync_error text,
    rate_limited_until timestamptz,             -- while a run waits for the tool
    acl_as_of       timestamptz,                -- when permissions were last resolved as a whole
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create unique index connector_name on connector (lower(name));

-- Which bases it feeds; `item_id` is the container there, null until the first run.
create table connector_base (
    connector_id    uuid not null references connector on delete cascade,
    base_id         uuid not null references base on delete cascade,
    item_id         uuid references item on delete set null,
    filled          boolean not null default false, -- whether a container was filed: one that is gone again was taken out
    primary key (connector_id, base_id)
);
create index connector_base_base on connector_base (base_id);
create index connector_base_item on connector_base (item_id) where item_id is not null;

-- () → running ⇄ partial → success | completed_with_errors | partial | failed | cancelled. At most one is open.
create table connector_run (
    id              uuid primary key default uuidv7(),
    connector_id    uuid not null references connector on delete cascade,
    job_id          uuid not null,              -- the job that makes it: without one, an open run is an orphan
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
    checkpoint      jsonb                       -- the marks at its end
);
create unique index connector_run_open on connector_run (connector_id) where completed_at is null;
create index connector_run_of on connector_run (connector_id, id);

create table connector_run_line (
    run_id          uuid not null references connector_run on delete cascade,
    no              bigint generated always as identity,
    at              timestamptz not null default clock_now(),
    level           text not null check (level in ('info', 'warning', 'error')),
    message         text not null,
    primary key (run_id, no)
);

-- How far each stream has come. `listing` counts its listings: a document that the last whole one did not name is gone.
create table connector_stream (
    connector_id    uuid not null references connector on delete cascade,
    scope           text collate "C" not null,
    kind            text collate "C" not null,
    mark_version    int,
    mark            jsonb,
    listing         int not null default 0,
    listed          boolean not null default false, -- the listing is whole
    lost            boolean not null default false, -- the scope is gone, or closed
    spoken          uuid,                       -- the last run that spoke of it
    updated_at      timestamptz not null default clock_now(),
    primary key (connector_id, scope, kind)
);

-- What is known of each document of the tool. Its texts are items: one in each base.
create table connector_document (
    connector_id    uuid not null references connector on delete cascade,
    source_id       text collate "C" not null,
    scope           text collate "C" not null,
    kind            text collate "C" not null,
    locator         jsonb not null default '{}',
    hash            bytea not null,             -- SHA-256 of all that is filed
    audience        text not null,
    seen            int not null default 0,     -- the stream's listing that last named it
    primary key (connector_id, source_id)
);
create index connector_document_stream on connector_document (connector_id, scope, kind, seen);
create index connector_document_audience on connector_document (connector_id, audience);

-- Documents that could not be read: asked for again by the next run.
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

-- Who may see documents, as the tool has it. `acl` is what that means here; empty while it is not `complete`.
create table connector_audience (
    connector_id    uuid not null references connector on delete cascade,
    key             text collate "C" not null,
    everybody       boolean not null,
    emails          text[] not null,
    users           text[] not null,            -- accounts whose address isn't known
    groups          text[] not null,
    complete        boolean not null,
    acl             text[] not null,
    as_of           timestamptz not null default clock_now(),
    primary key (connector_id, key)
);

-- Accounts of the tool, and the address that somebody gave them here.
create table connector_identity (
    connector_id    uuid not null references connector on delete cascade,
    user_id         text collate "C" not null,
    name            text not null default '',
    email           text,
    primary key (connector_id, user_id)
);

-- One record a document in each container.
create unique index item_record on item (parent_id, source_key) where type = 'record' and status <> 'deleting';
-- What a run asked for and is not done yet.
create index item_cause_active on item (cause) where status in ('processing', 'reading', 'embedding');

-- What an audience means here: nothing unless it is complete; accounts by the addresses that people gave them.
create function connector_acl(p_audience connector_audience) returns text[] language sql stable as $$
    select case when not p_audience.complete then '{}'::text[] else array(
        select 'org:*' where p_audience.everybody
        union select 'user_email:' || lower(e) from unnest(p_audience.emails) e
        union select 'user_email:' || lower(i.email) from connector_identity i
               where i.connector_id = p_audience.connector_id and i.user_id = any (p_audience.users) and i.email is not null
        union select 'group:' || g from unnest(p_audience.groups) g
        order by 1) end
$$;

-- Brings what audiences mean onto the records of every base, where it is not so yet; how many records that changed.
-- Of all their documents, or of some. The caller has or shares the turns of the bases. Chunks and vectors are not touched.
create function connector_spread(p_connector uuid, p_keys text[], p_sources text[]) returns int language plpgsql as $$
declare
    v_changed int;
begin
    update connector_audience a set acl = connector_acl(a)
     where a.connector_id = p_connector and a.key = any (p_keys) and a.acl is distinct from connector_acl(a);
    if (select c.acl is not null from connector c where c.id = p_connector) then
        return 0;   -- one list for all of it, on the containers
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

-- When the tool was last asked who sees a record; null for what no connector keeps in step, or keeps under a list of its own.
create function item_acl_as_of(p_item item) returns timestamptz language sql stable as $$
    select case when p_item.type = 'record' then (
        select a.as_of from connector_document d
          join connector c on c.id = d.connector_id and c.acl is null
          join connector_audience a on a.connector_id = d.connector_id and a.key = d.audience
         where d.connector_id = (p_item.source ->> 'connectorId')::uuid and d.source_id = p_item.source_key) end
$$;
