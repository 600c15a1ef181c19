-- The status of a folder is derived whenever one of its documents ends, under a lock on the folder until the end of the transaction:
-- workers that finish documents of the same folder waited for each other. While another document of the folder is still queued,
-- nothing can change, and a shared lock is enough. Whoever ends that document derives the status later, and if no other one is
-- queued by then, takes the lock alone, and so waits for all transactions that left it to them.
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
