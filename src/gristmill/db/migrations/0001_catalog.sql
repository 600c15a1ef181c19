-- What is filed where, and what is searchable of it.

create extension if not exists vector;

-- The only clock that instants are compared with. Tests replace this function in their own database.
create function clock_now() returns timestamptz
    language sql stable parallel safe as 'select statement_timestamp()';

-- PostgreSQL 18 brings uuidv7(); older servers get the same layout: milliseconds, 12 bits of their fraction, chance.
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

create table base (
    id              uuid primary key default uuidv7(),
    name            text not null,
    status          text not null default 'ready' check (status in ('ready', 'failed', 'deleting')),
    error_code      text,
    error_message   text,
    embedder        text not null,              -- the name that settings know
    embedder_identity text not null,            -- what made the vectors: they are comparable only within one
    dimensions      int not null,
    chunking        jsonb not null default '{}',
    file_processor  text,
    on_restart      text not null default 'resume' check (on_restart in ('resume', 'park')),
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
-- A base that is being deleted gives its name free at once.
create unique index base_name on base (lower(name)) where status <> 'deleting';

-- Originals, by what they hold. kept → removing → gone: while a blob is being removed from the store, who wants to
-- keep the same bytes waits for the row to be gone, and stores them anew.
create table blob (
    hash            bytea primary key,          -- SHA-256
    size            bigint not null,
    state           text not null default 'kept' check (state in ('kept', 'removing')),
    kept_at         timestamptz not null default clock_now()
);
create index blob_removing on blob (hash) where state = 'removing';

create table item (
    id              uuid primary key default uuidv7(),
    base_id         uuid not null references base on delete cascade,
    parent_id       uuid references item on delete cascade,
    type            text not null check (type in ('directory', 'sitemap', 'connector', 'file', 'url', 'note', 'record')),
    title           text not null,
    -- idle → preparing | processing → reading → embedding → completed | failed; any → deleting
    status          text not null check (status in
        ('idle', 'preparing', 'processing', 'reading', 'embedding', 'completed', 'failed', 'deleting')),
    error_code      text,
    error_message   text,
    warnings        text[] not null default '{}',
    source          jsonb not null default '{}', -- where it comes from: {"path": …}, {"url": …} or {"name": …}
    source_key      text not null,              -- what makes it the same thing: path, address, name or title
    blob_hash       bytea references blob,      -- the bytes of an uploaded file
    body            text,                       -- a note's own text; null for every other type
    size_bytes      bigint,
    wanted_version  int not null default 1,     -- raised by every (re)scheduling
    live_version    int,                        -- what search reads; null while nothing is searchable
    expanded_version int not null default 0,    -- containers: the last version whose children are all filed
    listed_version  int not null default 0,     -- children: the container's version that last listed them
    chunk_count     int not null default 0,     -- of the live version
    created_at      timestamptz not null default clock_now(),
    updated_at      timestamptz not null default clock_now()
);
create index item_tree on item (base_id, parent_id, id);
create index item_status on item (base_id, status);
create index item_children on item (parent_id, status) where parent_id is not null;
create index item_key on item (base_id, parent_id, type, md5(source_key));
create index item_deleting on item (base_id) where status = 'deleting';
create index item_blob on item (blob_hash) where blob_hash is not null;

-- Derive a container from its children, then its own container from it, upwards as long as something changes.
-- Whoever changed a child calls this in the same transaction. The container's row is locked first and the children
-- are looked at after, so that of two last children that end together, the second sees the first.
--
--     its expansion is not done, or a child is active    processing (preparing, until the first child)
--     its own expansion failed                           failed
--     all children failed                                failed
--     any completed, or none at all                      completed, with a warning when some failed
--     children that are being deleted                    do not count
create function item_settle(p_item uuid) returns void language plpgsql as $$
declare
    v_id uuid := p_item;
    v_item item;
    v_status text;
    v_failed boolean;
    v_own_error boolean;
begin
    while v_id is not null loop
        select * into v_item from item i where i.id = v_id for no key update;
        exit when not found or v_item.status = 'deleting' or v_item.type not in ('directory', 'sitemap', 'connector', 'file');
        if v_item.type <> 'file' then
            exit when v_item.expanded_version < v_item.wanted_version;
            v_own_error := v_item.error_code is not null and v_item.error_code <> 'all_failed';
            v_failed := exists (select from item c where c.parent_id = v_id and c.status = 'failed');
            v_status := case
                when exists (select from item c where c.parent_id = v_id
                              and c.status in ('idle', 'preparing', 'processing', 'reading', 'embedding')) then 'processing'
                when v_own_error then 'failed'
                when exists (select from item c where c.parent_id = v_id and c.status = 'completed') then 'completed'
                when v_failed then 'failed'
                else 'completed' end;
            update item i
               set status = v_status, updated_at = clock_now(),
                   error_code = case when v_own_error then i.error_code when v_status = 'failed' then 'all_failed' end,
                   error_message = case when v_own_error then i.error_message
                                        when v_status = 'failed' then 'All of its items failed.' end,
                   warnings = case when v_status = 'completed' and v_failed then array['some_failed'] else '{}' end
             where i.id = v_id
               and (i.status, i.warnings) is distinct from
                   (v_status, case when v_status = 'completed' and v_failed then array['some_failed'] else '{}' end);
            exit when not found;
        end if;
        v_id := v_item.parent_id;
    end loop;
end $$;

-- These items and all that is below them.
create function item_subtree(p_roots uuid[]) returns table (id uuid, depth int) language sql stable as $$
    with recursive subtree(id, depth) as (
        select r.id, 0 from unnest(p_roots) r(id)
        union all
        select i.id, s.depth + 1 from item i join subtree s on i.parent_id = s.id)
    select id, max(depth) from subtree group by id
$$;

-- What can go next of subtrees that are being deleted: items that hold none. It walks down only as far as it must to
-- find p_limit of them, so that a batch costs about the same however many there are.
create function item_removable(p_roots uuid[], p_limit int) returns setof uuid
language sql stable set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    with recursive subtree(id) as (
        select i.id from item i where i.id = any (p_roots) and i.status = 'deleting'
        union all
        select i.id from subtree s join item i on i.parent_id = s.id)
    select s.id from subtree s where not exists (select from item c where c.parent_id = s.id) limit p_limit
$$;

-- Same-base changes take turns; what a worker writes of a base's items shares the turn. Never held across I/O.
create function base_turn(p_base uuid) returns void language sql as
    'select pg_advisory_xact_lock(hashtextextended(p_base::text, 1735551596))';
create function base_turn_shared(p_base uuid) returns void language sql as
    'select pg_advisory_xact_lock_shared(hashtextextended(p_base::text, 1735551596))';

-- Canonical content: markdown, kept by what it was made from and what made it, shared by all that equal it.
create table content (
    hash            bytea primary key,          -- SHA-256 of (input's SHA-256, reader and its version)
    text            text not null,
    title           text,
    created_at      timestamptz not null default clock_now()
);

-- One generation of an item, from being read to being searchable.
create table item_version (
    item_id         uuid not null references item on delete cascade,
    version         int not null,
    content_hash    bytea not null references content,
    created_at      timestamptz not null default clock_now(),
    primary key (item_id, version)
);
create index item_version_content on item_version (content_hash);

-- Derived rows, replaced wholesale per version, one partition a base: a base drops at once and has its own
-- statistics and indexes. Search reads only rows whose version is their item's live_version.
create table chunk (
    base_id         uuid not null,
    item_id         uuid not null,
    version         int not null,
    index           int not null,
    id              uuid not null default uuidv7(),
    text            text not null,
    start           int not null,               -- offsets into the canonical content, in characters
    "end"           int not null,
    headings        text[] not null default '{}',
    embedding       halfvec not null,
    words           tsvector not null,
    primary key (base_id, item_id, version, index)
) partition by list (base_id);
create index chunk_words on chunk using gin (words);

-- A base and its partition come and go together.
create function base_partition() returns trigger language plpgsql as $$
declare
    v_name text := 'chunk_' || replace(coalesce(new.id, old.id)::text, '-', '');
begin
    if tg_op = 'INSERT' then
        -- Made apart, then attached: that keeps readers and writers of other bases going.
        execute format('create table %I (like chunk including defaults including constraints)', v_name);
        execute format('alter table chunk attach partition %I for values in (%L)', v_name, new.id);
    else
        execute format('drop table %I', v_name);
    end if;
    return null;
end $$;
create trigger base_partition after insert or delete on base for each row execute function base_partition();
