-- Following along: what changed lately, webhooks, and what the reconciler looks for.

-- What the stream of updates reads: the items that changed since its last look.
create index item_updated on item (updated_at);

-- What the reconciler reads: few rows in a system at rest, however many items there are.
create index item_active on item (base_id, id)
    where status in ('idle', 'preparing', 'processing', 'reading', 'embedding');
create index item_container on item (base_id, id) where type in ('directory', 'sitemap', 'connector');

-- Where events are sent. The events up to `cursor` are delivered; who puts events in order raises `wanted` when there
-- is something after it, in one transaction with the job that sends it. active ↔ paused.
create table webhook (
    id              uuid primary key default uuidv7(),
    url             text not null,
    description     text not null default '',
    secret          bytea not null,             -- sealed by the vault
    base_id         uuid,                       -- null: all; no foreign key, for the end of a base is told too
    types           text[],                     -- null: all
    status          text not null default 'active' check (status in ('active', 'paused')),
    cursor          bigint not null,
    wanted          bigint not null default 0,
    attempts        int not null default 0,     -- failed ones at the event that is next
    failing_since   timestamptz,
    error_code      text,
    error_message   text,
    delivered       bigint not null default 0,
    delivered_at    timestamptz,
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);

-- Events that a webhook gave up on. While one has no outcome the webhook is paused before it: nothing overtakes it.
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
