-- The tree of items: subtrees, the derived status of containers, and their progress.

-- These items and everything below them.
create function item_subtree(p_roots uuid[]) returns table (id uuid, depth int) language sql stable as $$
    with recursive subtree(id, depth) as (
        select r.id, 0 from unnest(p_roots) r(id)
        union all
        select i.id, s.depth + 1 from item i join subtree s on i.parent_id = s.id)
    select id, max(depth) from subtree group by id
$$;

-- Items without children, of subtrees that are being deleted: what can be removed next. It descends only as far as it
-- takes to find p_limit of them, so that a batch costs about the same however large the subtrees are.
create function item_removable(p_roots uuid[], p_limit int) returns setof uuid
language sql stable set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    with recursive subtree(id) as (
        select i.id from item i where i.id = any (p_roots) and i.status = 'deleting'
        union all
        select i.id from subtree s join item i on i.parent_id = s.id)
    select s.id from subtree s where not exists (select from item c where c.parent_id = s.id) limit p_limit
$$;

-- Derives the status of one container from its children; whether that changed it.
--
--     its expansion is not done, or a child is active    processing (preparing, until the first child)
--     its own expansion failed                           failed
--     all children failed                                failed
--     any child completed, or there is none              completed, with a warning when some failed
--     children that are being deleted                    do not count
--
-- The container's row is locked before the children are read, so that of two last children that end together the second
-- sees the first. A document with attachments is not a container: they don't change it, and so they don't lock it.
create function container_derive_status(p_item uuid) returns boolean language plpgsql as $$
declare
    v_item item;
    v_status text;
    v_failed boolean;
    v_own_error boolean;
    v_warnings text[];
begin
    if exists (select from item i where i.id = p_item and not i.is_container) then
        return false;
    end if;
    select * into v_item from item i where i.id = p_item for no key update;
    if not found or v_item.status = 'deleting' or v_item.expanded_version < v_item.wanted_version then
        return false;
    end if;
    v_own_error := v_item.error_code is not null and v_item.error_code <> 'all_failed';
    v_failed := exists (select from item c where c.parent_id = p_item and c.status = 'failed');
    v_status := case
        when exists (select from item c where c.parent_id = p_item and c.is_active) then 'processing'
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

-- Derives a container and those above it, upwards as long as something changes. Whoever changes a child calls this in
-- the same transaction.
create function item_derive_status(p_item uuid) returns void language plpgsql as $$
declare
    v_id uuid := p_item;
begin
    while v_id is not null and container_derive_status(v_id) loop
        select i.parent_id into v_id from item i where i.id = v_id;
    end loop;
end $$;

-- Derives many containers and those above them, each once, the deepest first and within a depth by id: concurrent callers
-- lock them in the same order.
create function item_derive_statuses(p_containers uuid[]) returns void language plpgsql as $$
declare
    v_due uuid[] := p_containers;
    v_next uuid;
    v_row record;
begin
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
        if v_row.id = any (v_due) and container_derive_status(v_row.id) then
            select i.parent_id into v_next from item i where i.id = v_row.id;
            v_due := v_due || v_next;
        end if;
    end loop;
end $$;

-- Derives the containers above many items.
create function item_derive_statuses_above(p_items uuid[]) returns void language sql as $$
    select item_derive_statuses(array(
        select distinct i.parent_id from item i where i.id = any (p_items) and i.parent_id is not null))
$$;

-- Whether a container keeps its status although a document in it has ended: another one is still queued, or it is still being listed.
-- A shared lock is enough for that, so that workers which finish documents of one folder don't wait for each other. Whoever ends
-- the other document, or the listing, derives the status later; if nothing is queued by then, under a lock that waits for the
-- shared ones. A document that is being published is never 'processing': its reading was committed before.
create function container_stays_as_it_is(p_item uuid) returns boolean language plpgsql as $$
begin
    if exists (select from item i where i.id = p_item and not i.is_container) then
        return true;
    end if;
    if not exists (select from item i where i.id = p_item and i.expanded_version < i.wanted_version)
       and not exists (select from item c where c.parent_id = p_item and c.status = 'processing' and not c.is_container) then
        return false;
    end if;
    begin
        perform from item i where i.id = p_item and i.status <> 'deleting' for share;
        -- Looked at again, because the document may have ended before the lock was there.
        perform from item i
          where i.id = p_item and (i.expanded_version < i.wanted_version
             or (i.status = 'processing' and i.warnings = '{}' and i.error_code is null and exists (
                    select from item c where c.parent_id = p_item and c.status = 'processing' and not c.is_container)));
        if found then
            return true;
        end if;
        raise exception using errcode = 'GM003'; -- gives the shared lock back: two that held it could not both get the other
    exception when sqlstate 'GM003' then
        return false;
    end;
end $$;

-- The same as item_derive_statuses_above, for documents that have ended, and at most once in a transaction: two transactions that hold
-- the shared lock of a container can't both turn it into the other one.
create function item_derive_statuses_after_end(p_items uuid[]) returns void language plpgsql as $$
declare
    v_due uuid[] := array(select distinct i.parent_id from item i where i.id = any (p_items) and i.parent_id is not null);
    v_next uuid;
    v_row record;
begin
    -- From the deepest on, in the order in which item_derive_statuses locks them.
    for v_row in
        with recursive up(id, parent_id) as (
            select i.id, i.parent_id from item i where i.id = any (v_due)
            union
            select i.id, i.parent_id from item i join up on i.id = up.parent_id),
        deep(id, top, depth) as (
            select u.id, u.parent_id, 1 from up u
            union all
            select d.id, u.parent_id, d.depth + 1 from deep d join up u on u.id = d.top)
        select d.id, max(d.depth) as depth from deep d group by d.id order by 2 desc, 1
    loop
        if v_row.id = any (v_due) and not container_stays_as_it_is(v_row.id) and container_derive_status(v_row.id) then
            select i.parent_id into v_next from item i where i.id = v_row.id;
            v_due := v_due || v_next;
        end if;
    end loop;
end $$;

-- A container's progress in percent: each child counts the same, and one that is not listed yet counts nothing, so that
-- progress never falls while a tree is being listed.
create function item_progress(p_item uuid) returns real language sql stable as $$
    with recursive tree(id, is_container, status, wanted_version, expanded_version, weight) as (
        select i.id, i.is_container, i.status, i.wanted_version, i.expanded_version, 100::double precision
          from item i where i.id = p_item
        union all
        select c.id, c.is_container, c.status, c.wanted_version, c.expanded_version,
               t.weight / count(*) over (partition by t.id)
          from tree t join item c on c.parent_id = t.id and c.status <> 'deleting'
         where t.is_container and t.expanded_version >= t.wanted_version)
    select coalesce(sum(case
        when t.is_container then
            case when t.status in ('completed', 'failed') and not exists (
                select from item c where c.parent_id = t.id and c.status <> 'deleting') then t.weight else 0 end
        when t.status in ('completed', 'failed') then t.weight
        else t.weight * coalesce((select least(p.percent, 99) from progress p
                                   where p.item_id = t.id and p.version = t.wanted_version), 0) / 100 end), 0)::real
      from tree t
$$;
