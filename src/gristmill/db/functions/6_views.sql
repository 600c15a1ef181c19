-- Why an active item does not proceed, since when, which attempt that is and when the next one is due; null when it
-- proceeds, or simply waits for its turn. What a worker reports comes first, then the last error of the item's job; what was
-- reported before that error counts only while the job runs, because its worker may be gone.
create function item_waiting_for(p_item uuid, p_version int, p_embedding boolean) returns jsonb language sql stable as $$
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

-- An item as it is shown: its columns with progress, what it is waiting for, and the age of its permissions. `acl_from` is
-- for the check of access; the planner inlines the view, so that reading through it costs nothing.
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
