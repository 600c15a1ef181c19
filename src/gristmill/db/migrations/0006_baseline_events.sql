-- Part of the schema of the first release. Frozen: read schema/ and functions/ instead.
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
