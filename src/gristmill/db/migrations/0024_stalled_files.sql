-- A file that gets no further counts as failed in vector stores, so that those who poll it come to an end.
-- Whether an active item has been getting no further for ten minutes: what it needs does not answer, every attempt fails, or no
-- worker runs. A job that follows a conversion or waits for room in the queue moves on.
create function item_is_stalled(p_id uuid) returns boolean language sql stable as $$
    select exists (
               select from item i join progress p on p.item_id = i.id and p.version = i.wanted_version
                where i.id = p_id and p.note is not null and p.noted_at < clock_now() - interval '10 minutes')
        or exists (
               select from item i join job j on j.subject = i.id and (j.payload ->> 'version')::int = i.wanted_version
                where i.id = p_id and j.state in ('queued', 'delayed')
                  and j.errors -> -1 ->> 'code' not in ('worker_stopped', 'worker_lost', 'queue_full', 'conversion_running')
                  and (j.errors -> 0 ->> 'at')::timestamptz < clock_now() - interval '10 minutes')
        or not exists (select from worker w where w.heartbeat_at > clock_now() - interval '10 minutes')
$$;

-- Its status there: every one of ours is a final one, or moves on by itself. An item of a paused base, or one that is stalled, does
-- neither for now, so it counts as failed until it goes on; its error says why. Else those who poll would wait without end.
create or replace function item_file_status(p_id uuid, p_status text, p_error text, p_is_paused boolean) returns text
    language sql stable as $$
    select case when p_status = 'completed' then 'completed'
                when p_status = 'deleting' or p_status = 'failed' and p_error = 'cancelled' then 'cancelled'
                when p_status = 'failed' then 'failed'
                when p_is_paused and not exists (
                    select from job j where j.subject = p_id and j.state = 'running') then 'failed'
                when item_is_stalled(p_id) then 'failed'
                else 'in_progress' end
$$;

