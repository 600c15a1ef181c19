-- Documents of any size, in parts; what a version was made by, so that nothing is made twice; how far each one is.

-- The canonical text of a content, in order; parts are bounded, so that no text has to be held whole.
create table content_part (
    content_hash    bytea not null references content on delete cascade,
    start           bigint not null,            -- in characters
    text            text not null,
    page            int,
    primary key (content_hash, start)
);
insert into content_part (content_hash, start, text) select hash, 0, text from content;
alter table content drop column text;
alter table content drop column title;
alter table content add column characters bigint;   -- null until all parts are there
alter table content add column warnings text[] not null default '{}';   -- what its reader has to tell about it
update content c set characters = (select length(p.text) from content_part p where p.content_hash = c.hash);

alter table item_version add column recipe text;            -- what cut and embedded it; null: not known
alter table item_version add column timeline jsonb not null default '{}';

-- The same text has the same vector: it is looked up before it is embedded.
alter table chunk add column text_hash uuid;                -- the first half of SHA-256
alter table chunk add column page int;
create index chunk_text on chunk (text_hash);

-- How far documents are that are being worked on. Unlogged: after a crash they begin again anyway.
create unlogged table progress (
    item_id         uuid primary key,
    version         int not null,
    percent         real not null,
    note            text,                       -- why it waits, where it does
    updated_at      timestamptz not null default clock_now()
);

-- When the base was given the work that is not announced as done yet.
alter table base add column busy_since timestamptz;

-- Derive one container from its children; whether that changed it. The table is above item_settle, in 0001.
create function item_derive(p_item uuid) returns boolean language plpgsql as $$
declare
    v_item item;
    v_status text;
    v_failed boolean;
    v_own_error boolean;
    v_warnings text[];
begin
    select * into v_item from item i where i.id = p_item for no key update;
    if not found or v_item.status = 'deleting' or v_item.type not in ('directory', 'sitemap', 'connector', 'file') then
        return false;
    end if;
    if v_item.type = 'file' then    -- it holds documents of its own, and is as it is; what holds it may change
        return true;
    end if;
    if v_item.expanded_version < v_item.wanted_version then
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

create or replace function item_settle(p_item uuid) returns void language plpgsql as $$
declare
    v_id uuid := p_item;
begin
    while v_id is not null and item_derive(v_id) loop
        select i.parent_id into v_id from item i where i.id = v_id;
    end loop;
end $$;

-- Derive the containers above many items, each once, the deepest first and those of one depth by id: whoever
-- does this at the same moment locks them in the same order.
create function item_settle_above(p_items uuid[]) returns void language plpgsql as $$
declare
    v_due uuid[];
    v_next uuid;
    v_row record;
begin
    v_due := array(select distinct i.parent_id from item i where i.id = any (p_items) and i.parent_id is not null);
    for v_row in
        with recursive up(id, parent_id, above) as (
            select i.id, i.parent_id, 0 from item i where i.id = any (v_due)
            union
            select i.id, i.parent_id, 0 from item i join up on i.id = up.parent_id),
        deep(id, top, depth) as (
            select u.id, u.parent_id, 1 from up u
            union all
            select d.id, u.parent_id, d.depth + 1 from deep d join up u on u.id = d.top)
        select d.id, max(d.depth) as depth from deep d group by d.id order by 2 desc, 1
    loop
        if v_row.id = any (v_due) and item_derive(v_row.id) then
            select i.parent_id into v_next from item i where i.id = v_row.id;
            v_due := v_due || v_next;
        end if;
    end loop;
end $$;

-- A container's share of what is done, in percent: each child counts the same, one that is not listed yet counts nothing.
-- So it never falls while a tree is being listed.
create function item_progress(p_item uuid) returns real language sql stable as $$
    with recursive tree(id, type, status, wanted_version, expanded_version, weight) as (
        select i.id, i.type, i.status, i.wanted_version, i.expanded_version, 100::double precision
          from item i where i.id = p_item
        union all
        select c.id, c.type, c.status, c.wanted_version, c.expanded_version, t.weight / count(*) over (partition by t.id)
          from tree t join item c on c.parent_id = t.id and c.status <> 'deleting'
         where t.type in ('directory', 'sitemap', 'connector') and t.expanded_version >= t.wanted_version)
    select coalesce(sum(case
        when t.type in ('directory', 'sitemap', 'connector') then
            case when t.status in ('completed', 'failed') and not exists (
                select from item c where c.parent_id = t.id and c.status <> 'deleting') then t.weight else 0 end
        when t.status in ('completed', 'failed') then t.weight
        else t.weight * coalesce((select least(p.percent, 99) from progress p
                                   where p.item_id = t.id and p.version = t.wanted_version), 0) / 100 end), 0)::real
      from tree t
$$;
