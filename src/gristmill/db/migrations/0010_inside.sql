-- What is inside documents and what was said of it, conversions elsewhere, and pages as they were fetched.

-- Documents inside a document, as its reader found them: kept with the content, so that nothing is opened twice.
create table embedded (
    content_hash    bytea not null references content on delete cascade,
    mark            bytea not null,             -- of name and bytes: the same thing twice is one
    number          int not null,               -- in the order they were found
    name            text not null,              -- a path within the document
    blob_hash       bytea not null references blob,
    size            bigint not null,
    primary key (content_hash, mark)
);
create index embedded_blob on embedded (blob_hash);

-- The content whose embedded documents are filed as children, and for which version.
alter table item add column filed_version int not null default 0;
alter table item add column filed_content bytea;

-- Images and tables inside a document, as its reader found them, each once by its bytes.
create table content_asset (
    content_hash    bytea not null references content on delete cascade,
    hash            bytea not null,             -- SHA-256 of an image's bytes, or of a table's text
    number          int not null,
    kind            text not null check (kind in ('image', 'table')),
    media_type      text not null,
    size            bigint not null,
    page            int,
    start           bigint not null,            -- its place in the content, in characters
    "end"           bigint not null,
    caption         text not null default '',
    inline          boolean not null default false,     -- nobody has to say what it shows
    blob_hash       bytea references blob,      -- an image's bytes
    primary key (content_hash, hash)
);
create index content_asset_blob on content_asset (blob_hash) where blob_hash is not null;

-- What became of an image in a version: waiting → asking → described | failed; waiting → described, from what was said
-- of equal bytes before. `asking` is written before what costs money is asked: found again, nobody knows whether it was paid.
create table asset (
    item_id         uuid not null,
    version         int not null,
    hash            bytea not null,
    analyst         text not null,
    state           text not null check (state in ('waiting', 'asking', 'described', 'failed')),
    text            text not null default '',
    error_code      text,
    error_message   text,
    primary key (item_id, version, hash),
    foreign key (item_id, version) references item_version on delete cascade
);
create index asset_known on asset (hash, analyst) where state = 'described';
create index asset_waiting on asset (item_id, version) where state in ('waiting', 'asking');
-- Whether it was announced that all assets of a version are analysed.
alter table item_version add column analysed boolean not null default false;

-- What a page was when it was fetched: its bytes, and what tells later whether it changed.
alter table item_version add column original bytea references blob;
alter table item_version add column validators jsonb not null default '{}';
create index item_version_original on item_version (original) where original is not null;

-- A conversion at a file processor: () → starting → under way → (). Without a reference to its item, for it has to be
-- cancelled after the item is gone.
create table conversion (
    item_id         uuid not null,
    version         int not null,
    processor       text not null,
    remote_id       text,                       -- null while it is being started: it may have begun, or not
    checks          int not null default 0,     -- since the last progress
    waited          interval not null default '0',      -- the same
    progress        double precision not null default 0,
    position        int,
    primary key (item_id, version)
);

-- Whether nothing uses a blob. The caller has locked it.
create function blob_unused(p_hash bytea) returns boolean language sql stable as $$
    select not exists (select from item i where i.blob_hash = p_hash)
       and not exists (select from item_version v where v.original = p_hash)
       and not exists (select from embedded e where e.blob_hash = p_hash)
       and not exists (select from content_asset a where a.blob_hash = p_hash)
$$;

-- A document that holds documents is as it is by itself: what happens to them does not change it, so it is not locked
-- by them either. What holds it may change.
create or replace function item_derive(p_item uuid) returns boolean language plpgsql as $$
declare
    v_item item;
    v_status text;
    v_failed boolean;
    v_own_error boolean;
    v_warnings text[];
begin
    if exists (select from item i where i.id = p_item and i.type not in ('directory', 'sitemap', 'connector')) then
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
