-- What an item is to those who know it as a file of a store.

-- Its status there: every one of ours is a final one, or moves on by itself. An item of a paused base does neither, so it
-- counts as failed until the base is resumed; its error says so.
create function item_file_status(p_id uuid, p_status text, p_error text, p_is_paused boolean) returns text
    language sql stable as $$
    select case when p_status = 'completed' then 'completed'
                when p_status = 'deleting' or p_status = 'failed' and p_error = 'cancelled' then 'cancelled'
                when p_status = 'failed' then 'failed'
                when p_is_paused and not exists (
                    select from job j where j.subject = p_id and j.state = 'running') then 'failed'
                else 'in_progress' end
$$;

-- Whether the queue of a base is paused.
create function base_is_paused(p_base uuid) returns boolean language sql stable as
    'select exists (select from lane l where l.lane = p_base::text and l.paused)';
