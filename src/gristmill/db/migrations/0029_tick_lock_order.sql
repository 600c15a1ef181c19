-- job_tick wakes lanes before it changes jobs: it could deadlock with job_enqueue.
-- Maintenance, by one worker at a time: queues jobs that are due, and requeues jobs of workers that are gone. The lanes
-- of both are woken before any job is changed: job_enqueue holds its lanes while it waits for a job that is being changed.
create or replace function job_tick() returns table (promoted int, expired int, next_in interval)
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
