-- What is left out of folders and sitemaps: said by their base, and told on the container.

alter table base add column settings jsonb not null default '{}';   -- {"ignore": [pattern, …], "includeHidden": bool}

-- Containers: what their last listing passed over, as {reason: number}. Beside `warnings`, which are derived from the
-- children and written anew with each of them.
alter table item add column left_out jsonb not null default '{}';

-- A blob's row says under which name its bytes are in the store. A name is used once: whoever takes bytes out of the
-- store by a name it read a moment ago can't hit equal bytes that came since.
alter table blob add column name text;
update blob set name = encode(hash, 'hex');
alter table blob alter column name set not null;

-- Names in the store that are no blob's: not yet, while bytes come in, or never more.
--
--     announce → stray ── keep ──▶ a blob's
--                  │ due                │ nothing uses it
--                  └─────▶ doomed ◀─────┘ ──▶ out of the store, then out of here
create table stray (
    name            text collate "C" primary key,
    doomed          boolean not null,           -- nobody may keep it any more
    due_at          timestamptz not null default clock_now()
);
create index stray_doomed on stray (name) where doomed;

insert into stray (name, doomed) select name, true from blob where state = 'removing';
delete from blob where state = 'removing';
alter table blob drop column state;             -- and with it the index of those that were being removed

-- What waits for its next attempt counts for the limits of the queue too.
create index job_delayed_lane on job (lane) where state = 'delayed';
