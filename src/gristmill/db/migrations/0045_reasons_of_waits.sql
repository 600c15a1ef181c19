-- A report of a worker that is gone hid why its document waits now: it counts only if nothing was recorded after it.
-- Why an active item does not proceed, since when, which attempt that is and when the next one is due; null when it
-- proceeds, or simply waits for its turn. What a worker reports comes first, then the last error of the item's job; what was
-- reported before that error counts only while the job runs, because its worker may be gone.
create or replace function item_waiting_for(p_item uuid, p_version int, p_embedding boolean) returns jsonb language sql stable as $$
    select jsonb_build_object(
               'code', coalesce(p.note_code, case when l.paused then 'paused' else e.error ->> 'code' end),
               'message', coalesce(p.note, case when l.paused then 'The queue of this base is paused. Resume it to go on.'
                                                else e.error ->> 'message' end),
               'since', coalesce(p.noted_at, case when l.paused then j.run_at else (
                   select (f.error ->> 'at')::timestamptz from jsonb_array_elements(j.errors) with ordinality f(error, n)
                    where f.error ->> 'attempt' = '1' order by f.n desc limit 1) end,
                   (e.error ->> 'at')::timestamptz, j.run_at),
               'attempt', j.attempt,
               'max_attempts', coalesce((e.error ->> 'maxAttempts')::int, j.max_attempts),
               'next_attempt_at', case when l.paused then null when j.state = 'delayed' then j.run_at else p.next_at end)
      from job j
      left join lane l on l.lane = j.lane and l.paused and j.state <> 'running'
     cross join lateral (select j.errors -> -1 as error) e
      left join progress p on p.item_id = p_item and p.version = p_version and p.note is not null
                          and (j.state = 'running' or p.updated_at > coalesce((e.error ->> 'at')::timestamptz, '-infinity'))
     where j.subject = p_item and j.state <> 'dead' and (j.payload ->> 'version')::int = p_version
       and (p.note is not null or l.paused
            or (e.error ->> 'code' not in ('worker_stopped', 'worker_lost') and not (p_embedding and j.state = 'running')
                and not (e.error ->> 'code' = 'queue_full' and j.state = 'running')))
     order by j.id desc limit 1
$$;
