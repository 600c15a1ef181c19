-- Sources are checked by themselves, folders are watched, and deleted sources stay deleted.
alter table base add column refresh jsonb;
alter table item add column fingerprint text;
create index item_fingerprint on item (base_id, fingerprint) where fingerprint is not null;

create table item_refresh (
    item_id         uuid primary key references item on delete cascade,
    base_id         uuid not null,
    rule            jsonb not null,
    origin          text not null check (origin in ('item', 'container', 'base')),
    next_at         timestamptz,
    unchanged       smallint not null default 0,
    checked_at      timestamptz,
    error_code      text,
    error_message   text
);
create index item_refresh_due on item_refresh (base_id, next_at) where next_at is not null;

create table exclusion (
    id              uuid primary key default uuidv7(),
    base_id         uuid not null references base on delete cascade,
    root_id         uuid not null references item on delete cascade,
    type            text not null,
    source_key      text not null,
    title           text not null,
    created_at      timestamptz not null default clock_now()
);
create unique index exclusion_source on exclusion (root_id, type, md5(source_key));
create index exclusion_base on exclusion (base_id, id);

create table folder_watch (
    item_id         uuid primary key references item on delete cascade,
    wanted          boolean,
    state           text not null default 'waiting' check (state in ('waiting', 'watching', 'unavailable', 'off')),
    reason_code     text,
    reason          text,
    owner           uuid,
    lease_until     timestamptz,
    changed_at      timestamptz not null default clock_now()
);
create index folder_watch_free on folder_watch (lease_until) where state <> 'off';

insert into lane_owner (lane, org_id) values ('refresh', '00000000-0000-7000-8000-000000000001');

create or replace view item_row as
select i.id, i.base_id, i.parent_id, i.type, i.title, i.status, i.error_code, i.error_message, i.warnings, i.source,
       i.size_bytes, i.wanted_version, i.live_version, i.chunk_count, i.left_out, i.created_at, i.updated_at,
       case when i.status in ('completed', 'deleting') then null
            when i.is_container then item_progress(i.id)
            else (select p.percent from progress p where p.item_id = i.id and p.version = i.wanted_version) end as percent,
       case when i.is_active then item_waiting_for(i.id, i.wanted_version, i.status = 'embedding') end as waiting_for,
       i.acl, i.metadata, i.document, i.chunking, i.file_id, item_acl_as_of(i) as acl_as_of, i.acl_from,
       case when i.type in ('directory', 'file', 'url', 'sitemap', 'site') then (
           select jsonb_build_object('rule', r.rule, 'origin', r.origin, 'next_at', r.next_at, 'checked_at', r.checked_at,
                                     'unchanged', r.unchanged, 'error_code', r.error_code, 'error_message', r.error_message,
                                     'watch', w.wanted, 'watch_state', w.state, 'watch_code', w.reason_code, 'watch_reason', w.reason)
             from (select i.id) s(id) left join item_refresh r on r.item_id = s.id left join folder_watch w on w.item_id = s.id
            where r.item_id is not null or w.item_id is not null) end as freshness
  from item i;
