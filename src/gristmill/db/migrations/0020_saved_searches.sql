-- A search that a caller stored under a name, for itself. It ends with its key, unless the key acts for a person.
create table saved_search (
    id              uuid primary key default uuidv7(),
    org_id          uuid not null references organisation,
    owner           text not null,              -- user_email:…, key:{id} or local
    key_id          uuid references api_key on delete cascade,
    name            text not null,
    request         jsonb not null,             -- the body of a request to search
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create unique index saved_search_name on saved_search (org_id, owner, lower(name));
create index saved_search_key on saved_search (key_id) where key_id is not null;
