-- Web sites that are crawled: a further type of container. The column `is_container` is made again, because PostgreSQL 15 and 16
-- can't change the expression of a generated column.
alter table item drop constraint item_type_check;
alter table item add constraint item_type_check
    check (type in ('directory', 'sitemap', 'site', 'connector', 'file', 'url', 'note', 'record'));
drop view item_row;
drop index item_file_order;
drop index item_container;
alter table item drop column is_container;
alter table item add column is_container boolean not null
    generated always as (type in ('directory', 'sitemap', 'site', 'connector')) stored;
create index item_file_order on item (base_id, (coalesce(file_id, id))) where not is_container;
create index item_container on item (base_id, id) where is_container;
create view item_row as
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
create table site_crawl (
    site_id         uuid primary key references item on delete cascade,
    number          int not null default 1,
    version         int not null,
    is_running      boolean not null default true,
    is_seeded       boolean not null default false,
    is_complete     boolean not null default true,
    sites           text[] not null,
    requests        int not null default 0,
    pages           int not null default 0,
    addresses       int not null default 0,
    left_out        jsonb not null default '{}',
    started_at      timestamptz not null default clock_now(),
    finished_at     timestamptz
);

create table crawl_page (
    site_id         uuid not null references item on delete cascade,
    url             text not null,
    number          int not null,
    fetched         int not null default 0,
    depth           int not null,
    state           text not null default 'new' check (state in ('new', 'page', 'alias', 'left_out', 'gone')),
    reason          text,
    target          text,
    keeps_address   boolean not null default false,
    attempts        int not null default 0,
    links           text[] not null default '{}',
    validators      jsonb not null default '{}',
    digest          bytea,
    path            text not null generated always as (split_part(url, '?', 1)) stored,
    primary key (site_id, url)
);
create index crawl_page_waiting on crawl_page (site_id, number, attempts, depth) where fetched < number;
create index crawl_page_path on crawl_page (site_id, path) where strpos(url, '?') > 0;

create table web_host (
    host            text primary key,
    delay           interval not null,
    next_at         timestamptz not null default clock_now()
);

