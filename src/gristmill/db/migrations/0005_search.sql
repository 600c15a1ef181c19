-- What search reads: words and quantised vectors in segments; and for whose eyes.

-- ── words and vectors ────────────────────────────────────────────────────────────────────────────────────

-- A chunk's number: what segments and postings know it by. Numbers are never used again.
create sequence chunk_no;
alter table chunk add column no bigint not null default nextval('chunk_no');
create unique index chunk_number on chunk (base_id, no);
alter table chunk add column if not exists page int;        -- where it begins, for documents that have pages
drop index chunk_words;
alter table chunk drop column words;

-- Chunks that were written together, or were brought together since: () → written → merged into another. A row
-- never changes, so that whoever has read it once may keep it. The arrays have an entry for each chunk, by number;
-- integers are big-endian.
create sequence segment_id;
create table segment (
    base_id         uuid not null references base on delete cascade,
    id              bigint not null default nextval('segment_id'),
    recipe          int not null,               -- of the lexer; 0: not lexed yet
    chunks          int not null,
    tokens          bigint not null,            -- the sum of the lengths, for BM25
    languages       text[] not null,            -- that its words were stemmed for
    nos             bytea not null,             -- int8 each
    items           bytea not null,             -- the low eight bytes of each chunk's item
    lengths         bytea not null,             -- in tokens, uint2 each
    codes           bytea not null,             -- the signs of each vector, a bit each
    primary key (base_id, id)
);
alter table segment alter nos set storage external, alter items set storage external,
                    alter lengths set storage external, alter codes set storage external;

-- Which chunks of a segment hold a lexeme, and how often; one partition a base.
create table posting (
    base_id         uuid not null,
    lexeme          text collate "C" not null,
    segment         bigint not null,
    entries         bytea not null,             -- search/postings.py tells the form
    primary key (base_id, lexeme, segment)
) partition by list (base_id);
create index posting_segment on posting (base_id, segment);
alter table posting alter entries set storage external;

-- Numbers of chunks that are gone, until no segment holds them any more.
create table chunk_gone (
    base_id         uuid not null references base on delete cascade,
    no              bigint not null,
    gone_at         timestamptz not null default clock_now(),
    primary key (base_id, no)
);

create or replace function base_partition() returns trigger language plpgsql as $$
declare
    v_suffix text := replace(coalesce(new.id, old.id)::text, '-', '');
begin
    if tg_op = 'INSERT' then
        -- Made apart, then attached: that keeps readers and writers of other bases going.
        execute format('create table %I (like chunk including defaults including constraints)', 'chunk_' || v_suffix);
        execute format('alter table chunk attach partition %I for values in (%L)', 'chunk_' || v_suffix, new.id);
        execute format('create table %I (like posting including constraints including storage)', 'posting_' || v_suffix);
        execute format('alter table posting attach partition %I for values in (%L)', 'posting_' || v_suffix, new.id);
    else
        execute format('drop table %I', 'chunk_' || v_suffix);
        execute format('drop table %I', 'posting_' || v_suffix);
    end if;
    return null;
end $$;

-- What was written before has no words yet: a segment says so, and is lexed by the base's next tidying.
do $do$
declare
    v_base uuid;
begin
    for v_base in select id from base loop
        execute format('create table %I (like posting including constraints including storage)',
                       'posting_' || replace(v_base::text, '-', ''));
        execute format('alter table posting attach partition %I for values in (%L)',
                       'posting_' || replace(v_base::text, '-', ''), v_base);
    end loop;
end $do$;
insert into segment (base_id, recipe, chunks, tokens, languages, nos, items, lengths, codes)
select c.base_id, 0, count(*), 0, '{}', string_agg(int8send(c.no), ''::bytea order by c.no),
       string_agg(substring(uuid_send(c.item_id) from 9), ''::bytea order by c.no), '', ''
  from (select base_id, no, item_id, (row_number() over (partition by base_id order by no) - 1) / 50000 as part
          from chunk) c
 group by c.base_id, c.part;

-- ── for whose eyes ───────────────────────────────────────────────────────────────────────────────────────

-- Who may see a base's items, as entries: org:*, team:{id}, group:{id}, user_email:{address}. None: nobody but admins.
alter table base add column acl text[] not null default '{}';
-- An item's own list; null inherits. `acl_from` is the item at or above it whose list holds, null for the base's.
alter table item add column acl text[];
alter table item add column acl_from uuid;
alter table item add column metadata jsonb not null default '{}';
create index item_acl on item using gin (acl) where acl is not null;
create index item_acl_from on item (base_id, acl_from);
create index item_metadata on item using gin (metadata jsonb_path_ops);

create function item_acl_from() returns trigger language plpgsql as $$
begin
    new.acl_from := case when new.acl is not null then new.id
                         when new.parent_id is not null then (select p.acl_from from item p where p.id = new.parent_id) end;
    return new;
end $$;
create trigger item_acl_from before insert on item for each row execute function item_acl_from();

-- Gives an item a list of its own, or with null the one above it, and all below it that has none of its own.
create function item_set_acl(p_item uuid, p_acl text[]) returns void language plpgsql as $$
declare
    v_from uuid := p_item;
begin
    if p_acl is null then
        select p.acl_from into v_from from item i left join item p on p.id = i.parent_id where i.id = p_item;
    end if;
    with recursive below(id) as (
        select p_item
        union all
        select c.id from item c join below b on c.parent_id = b.id where c.acl is null)
    update item i
       set acl = case when i.id = p_item then p_acl else i.acl end, acl_from = v_from, updated_at = clock_now()
      from below where i.id = below.id;
end $$;

-- Whether eyes see an item: null is an admin, who sees all. What has no list that is known is seen by nobody else.
create function item_seen(p_eyes text[], p_acl_from uuid, p_own text[], p_base text[]) returns boolean
    language sql immutable parallel safe as
    'select p_eyes is null or coalesce(case when p_acl_from is null then p_base else p_own end && p_eyes, false)';

-- The items that a search may answer from, for these eyes, under these conditions; a condition that is null holds.
-- One select, so that it is planned as a part of whatever asks.
create function item_searched(p_base uuid, p_eyes text[], p_types text[], p_under uuid[], p_metadata jsonb,
                              p_created_after timestamptz, p_created_before timestamptz,
                              p_updated_after timestamptz, p_updated_before timestamptz)
    returns table (id uuid, live_version int, title text, type text, source jsonb, metadata jsonb)
    language sql stable as $$
    select i.id, i.live_version, i.title, i.type, i.source, i.metadata
      from item i join base b on b.id = i.base_id left join item o on o.id = i.acl_from
     where i.base_id = p_base and i.live_version is not null and i.status <> 'deleting' and b.status <> 'deleting'
       and item_seen(p_eyes, i.acl_from, o.acl, b.acl)
       and (p_types is null or i.type = any (p_types))
       and (p_under is null or i.id in (select s.id from item_subtree(p_under) s))
       and (p_metadata is null or i.metadata @> p_metadata)
       and (p_created_after is null or i.created_at >= p_created_after)
       and (p_created_before is null or i.created_at < p_created_before)
       and (p_updated_after is null or i.updated_at >= p_updated_after)
       and (p_updated_before is null or i.updated_at < p_updated_before)
$$;
