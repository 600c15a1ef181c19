-- Enqueueing and finishing jobs; 4_claims.sql claims them.

-- What a job costs its lane: at least 1, and more with its workload. 64 KiB of input cost as much as one job.
create function job_cost(workload real) returns double precision
    language sql immutable parallel safe as 'select 1 + workload::double precision / 65536';

-- Adds lanes to the round-robin of their pool. A lane that was idle starts level with the others: it has not saved up
-- what it did not use.
create function lane_wake(p_lanes text[], p_urgent text[]) returns void language plpgsql as $$
begin
    insert into lane (lane) select distinct u.lane from unnest(p_lanes) u(lane) order by 1 on conflict do nothing;
    perform from lane l where l.lane = any (p_lanes) order by l.lane for key share;
    update lane l
       set busy = true,
           urgent = l.urgent or l.lane = any (p_urgent),
           virtual_time = case when l.busy then l.virtual_time
                         else greatest(l.virtual_time, (select min(b.virtual_time) from lane b
                                                     where b.busy and not b.paused and b.pool = l.pool)) end
      from (select w.lane from lane w
             where w.lane = any (p_lanes) and (not w.busy or (w.lane = any (p_urgent) and not w.urgent))
             order by w.lane for no key update) w
     where l.lane = w.lane;
end $$;

-- Inserts p_count jobs in the caller's transaction. Returns one row per input, in order: the job's id, and whether it
-- is new or the living job with the same key. One JSON text is by far the cheapest way to pass many rows to a
-- function: nine arrays cost the client twice as much.
create function job_enqueue(p_jobs json, p_count int, p_lanes text[], p_urgent text[])
returns table (id uuid, created boolean) language plpgsql as $$
#variable_conflict use_column
declare
    v_ids uuid[] := array(select uuidv7() from generate_series(1, p_count));
    v_keys text[];
    v_new int;
begin
    perform lane_wake(p_lanes, p_urgent) where cardinality(p_lanes) > 0;
    perform pg_notify('job', '');
    loop
        insert into job (id, kind, lane, priority, workload, key, subject, payload, max_attempts, state, run_at)
        select v_ids[u.n], u.kind, u.lane, u.priority, u.workload, u.key, u.subject, u.payload, u.attempts,
               case when u.delay is null then 'queued' else 'delayed' end::job_state,
               clock_now() + coalesce(u.delay, '0')
          from rows from (json_to_recordset(p_jobs) as (kind text, lane text, priority smallint, workload real, key text,
                          subject uuid, payload jsonb, attempts smallint, delay interval)) with ordinality
               as u(kind, lane, priority, workload, key, subject, payload, attempts, delay, n)
         where v_new is null or not exists (select from job j where j.id = v_ids[u.n])
         order by u.key, u.n -- else two transactions with the same keys could each wait for the other
        on conflict (key) where key is not null and state <> 'dead' do nothing;
        if v_new is null then
            get diagnostics v_new = row_count;
            if v_new = p_count then
                return query select u.id, true from unnest(v_ids) u(id);
                return;
            end if;
            v_keys := array(select j ->> 'key' from json_array_elements(p_jobs) j);
        end if;
        -- The living job with our key may have ended a moment later: then ours is inserted after all.
        exit when not exists (
            select from unnest(v_ids, v_keys) u(id, key)
             where not exists (select from job j where j.id = u.id)
               and not exists (select from job j where j.key = u.key and j.state <> 'dead'));
    end loop;
    return query
        select coalesce(mine.id, other.id), mine.id is not null
          from unnest(v_ids, v_keys) with ordinality u(id, key, n)
          left join job mine on mine.id = u.id
          left join job other on other.key = u.key and other.state <> 'dead'
         order by u.n;
end $$;

-- Moves jobs that ended otherwise than done to the history. The caller has locked them.
create function job_archive(p_ids uuid[], p_outcome text) returns int language sql as $$
    with gone as (
        delete from job j where j.id = any (p_ids)
        returning j.id, j.kind, j.lane, j.subject, j.priority, j.attempt, j.max_attempts, j.errors, j.result, j.created_at,
                  j.started_at),
    kept as (
        insert into job_history (id, kind, lane, subject, outcome, priority, attempt, max_attempts, errors, result, created_at,
                             started_at, finished_at)
        select g.id, g.kind, g.lane, g.subject, p_outcome, g.priority, g.attempt, g.max_attempts, g.errors, g.result, g.created_at,
               g.started_at, clock_now()
          from gone g returning 1)
    select count(*)::int from kept
$$;

-- dead → dismissed. A job that is being retried at this moment is skipped, not waited for.
create function job_dismiss(p_ids uuid[]) returns int language sql as $$
    select job_archive(array(
        select j.id from job j where j.id = any (p_ids) and j.state = 'dead' order by j.id for update skip locked), 'dismissed')
$$;

-- running → done, for each job whose lease the caller still holds; their ids. Dead jobs of the same kind about the same
-- subject, or without a subject with the same key, are dismissed: what they could not do is done.
create function job_complete(p_ids uuid[], p_leases uuid[]) returns setof uuid language sql as $$
    with gone as (
        delete from job j using unnest(p_ids, p_leases) d(id, lease)
         where j.id = d.id and j.lease = d.lease and j.state = 'running'
        returning j.id, j.kind, j.lane, j.subject, j.key, j.priority, j.attempt, j.max_attempts, j.errors, j.result,
                  j.created_at, j.started_at),
    outlived as materialized (
        select d.id from gone g join job d on d.subject = g.subject and d.kind = g.kind and d.state = 'dead'
        union all
        select d.id from gone g join job d on g.subject is null and d.key = g.key and d.state = 'dead')
    insert into job_history (id, kind, lane, subject, outcome, priority, attempt, max_attempts, errors, result, created_at,
                             started_at, finished_at)
    select g.id, g.kind, g.lane, g.subject, 'done', g.priority, g.attempt, g.max_attempts, g.errors, g.result, g.created_at,
           g.started_at, clock_now() from gone g
     where (select case when exists (select from outlived) then job_dismiss(array(select id from outlived)) else 0 end) >= 0
    returning id
$$;

-- A worker's main loop in one round trip and one commit: complete what is finished, claim what there is room for.
create function job_complete_and_claim(p_done uuid[], p_leases uuid[], p_worker uuid, p_limit int, p_general int, p_cap int,
                          p_global_cap int, p_room jsonb, p_urgent_room jsonb, p_new_room int)
returns table (id uuid, kind text, lane text, priority smallint, payload jsonb, subject uuid, attempt smallint,
               max_attempts smallint, lease uuid, interrupted boolean)
language plpgsql as $$
begin
    if cardinality(p_done) > 0 then
        perform job_complete(p_done, p_leases);
    else
        -- A claim that a crash of the server loses was never made: its jobs are still queued.
        set local synchronous_commit = off;
    end if;
    if p_limit > 0 then
        return query select * from job_claim(p_worker, p_limit, p_general, coalesce(p_cap, 1000000), p_global_cap, p_room,
                                             p_urgent_room, p_new_room);
    end if;
end $$;

-- running → queued, or delayed when p_delay is not zero; cancelled, if that was requested meanwhile. The caller has
-- locked the jobs and may move them; an attempt that is not counted is refunded.
create function job_requeue(p_ids uuid[], p_delay interval, p_counted boolean, p_error jsonb) returns int
language plpgsql as $$
declare
    v_lanes text[];
    v_urgent text[];
begin
    perform job_archive(array(select j.id from job j where j.id = any (p_ids) and j.state = 'running' and j.cancelling), 'cancelled');
    if p_delay <= interval '0' then
        select array_agg(distinct j.lane), array_agg(distinct j.lane) filter (where j.priority = 0)
          into v_lanes, v_urgent from job j where j.id = any (p_ids) and j.state = 'running' and not j.cancelling;
        -- Lanes before jobs, as in job_enqueue: it waits for a job with its key that is being changed.
        if v_lanes is not null then
            perform lane_wake(v_lanes, coalesce(v_urgent, '{}'));
            perform pg_notify('job', '');
        end if;
    end if;
    update job j
       set state = case when p_delay > interval '0' then 'delayed' else 'queued' end::job_state,
           run_at = clock_now() + p_delay, lease = null, worker = null,
           attempt = j.attempt - case when p_counted then 0 else 1 end,
           errors = case when p_error is null then j.errors
                         -- A job that polls says once what it waits for, and since when, with the latest message.
                         when not p_counted and p_error ->> 'code' = j.errors -> -1 ->> 'code'
                         then (j.errors - -1) || (j.errors -> -1 || p_error)
                         else j.errors || (p_error || jsonb_build_object('at', clock_now(), 'attempt', j.attempt)) end
     where j.id = any (p_ids) and j.state = 'running' and not j.cancelling;
    return cardinality(p_ids);
end $$;

-- Cancels jobs: waiting ones are removed at once; running ones are signalled, and stop at their next await.
create function job_cancel(p_ids uuid[]) returns table (removed int, signalled int) language plpgsql as $$
begin
    removed := job_archive(array(
        select j.id from job j where j.id = any (p_ids) and j.state in ('queued', 'delayed') order by j.id for update), 'cancelled');
    -- This snapshot is newer: it sees as running what was claimed while we waited for its row.
    with hit as (
        select j.id from job j where j.id = any (p_ids) and j.state = 'running' order by j.id for no key update),
    asked as (update job j set cancelling = true from hit where j.id = hit.id returning j.worker)
    select coalesce(sum(n.jobs), 0) into signalled from (
        select a.jobs, pg_notify('job_cancel', a.worker::text)
          from (select worker, count(*) as jobs from asked group by 1) a) n;
    return next;
end $$;

-- Maintenance, by one worker at a time: queues jobs that are due, and requeues jobs of workers that are gone. The lanes
-- of both are woken before any job is changed: job_enqueue holds its lanes while it waits for a job that is being changed.
create function job_tick() returns table (promoted int, expired int, next_in interval)
language plpgsql set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    v_due uuid[];
    v_lost uuid[];
    v_lanes text[];
    v_urgent text[];
begin
    promoted := 0; expired := 0;
    if pg_try_advisory_xact_lock(hashtext('gristmill.tick')) then
        perform job_count_fold();
        v_due := array(
            select j.id from job j where j.state = 'delayed' and j.run_at <= clock_now()
             order by j.run_at limit 1000 for update skip locked);
        delete from worker w
         where w.lease_until < clock_now()
            or (w.heartbeat_at < clock_now() - interval '3 seconds' and w.lock_key is not null and not exists (
                    select from pg_locks l
                     where l.locktype = 'advisory' and l.objsubid = 2 and l.granted
                       and l.classid = 1735551596 and l.objid = w.lock_key
                       and l.database = (select oid from pg_database where datname = current_database())));
        v_lost := array(
            select j.id from job j
             where j.state = 'running' and not exists (select from worker w where w.id = j.worker)
             order by j.id for update skip locked);
        select array_agg(distinct j.lane), array_agg(distinct j.lane) filter (where j.priority = 0)
          into v_lanes, v_urgent from job j where j.id = any (v_due || v_lost);
        if v_lanes is not null then
            perform lane_wake(v_lanes, coalesce(v_urgent, '{}'));
            perform pg_notify('job', '');
        end if;
        update job j set state = 'queued' where j.id = any (v_due);
        get diagnostics promoted = row_count;
        expired := job_requeue(v_lost, '0', true,
            '{"code": "worker_lost", "message": "The worker that ran this job is gone."}');
    end if;
    select j.run_at - clock_now() into next_in from job j where j.state = 'delayed' order by j.run_at limit 1;
    return next;
end $$;
