-- name: enqueue
-- () -> queued | delayed, in the caller's transaction; a row per job, in order.
select id, created from job_enqueue(%(jobs)s::json, %(count)s::int, %(lanes)s::text[], %(urgent)s::text[]);

-- name: wake_lanes
-- Adds lanes to the round-robin, wakes the workers at commit, and returns a first id for jobs that are copied in.
select uuidv7() from (select lane_wake(%(lanes)s::text[], %(urgent)s::text[]), pg_notify('job', '')) woken;

-- name: copy_jobs
-- () -> queued, many at once; fails when a living job has one of the keys.
copy job (id, kind, lane, priority, max_attempts, workload, key, subject, payload) from stdin;

-- name: complete_and_claim
-- running -> done for what is finished, then queued -> running, fair across lanes, under the caps.
select id, kind, lane, priority, payload, subject, attempt, max_attempts, lease, interrupted
  from job_complete_and_claim(%(done)s::uuid[], %(leases)s::uuid[], %(worker)s, %(limit)s::int, %(general)s::int, %(lane_cap)s::int,
                 %(global_cap)s::int, %(lane_room)s::jsonb, %(interactive_room)s::jsonb,
                 %(new_lane_room)s::int);

-- name: claim_pool
-- queued -> running, of a pool: one per lane, fair across organisations.
select id, kind, lane, priority, payload, subject, attempt, max_attempts, lease, interrupted, false as completed,
       %(pool)s as pool
  from job_claim_pool(%(pool)s, %(worker)s, %(limit)s::int, %(share)s::int, %(running)s::text[]);

-- name: set_pool
-- Moves lanes to a pool, before their first job is enqueued. They run one job at a time.
with missing as (
    insert into lane (lane, pool, cap) select u.lane, %(pool)s, 1 from unnest(%(lanes)s::text[]) u(lane) order by 1
    on conflict do nothing)
update lane set pool = %(pool)s, cap = 1 where lane = any (%(lanes)s::text[]) and pool <> %(pool)s;

-- name: complete
-- running -> done, for the jobs whose lease still holds.
select job_complete(%(ids)s::uuid[], %(leases)s::uuid[]);

-- name: save_result
-- What a running job reports so far, only while the caller still holds its lease.
update job set result = %(result)s where id = %(id)s and lease = %(lease)s and state = 'running' returning id;

-- name: load_result
-- What a job reported in an earlier attempt.
select result from job where id = %(id)s;

-- name: lane_job_ids
-- The living jobs of a lane.
select id from job where lane = %(lane)s and state <> 'dead' order by id;

-- name: has_other_running_jobs
-- Whether a lane runs another job than this one.
select exists (select from job where lane = %(lane)s and state = 'running' and id <> %(id)s);

-- name: clear_lane
-- Deletes a lane and its dead jobs: what it belonged to no longer exists.
with dead as (delete from job where lane = %(lane)s and state = 'dead')
delete from lane where lane = %(lane)s;

-- name: fence
-- Locks a running job for the rest of the transaction, only while the caller still holds its lease.
select id from job where id = %(id)s and lease = %(lease)s and state = 'running' for no key update;

-- name: fence_all
-- Locks those of the running jobs whose lease the caller still holds, for the rest of the transaction.
select j.id from job j join unnest(%(ids)s::uuid[], %(leases)s::uuid[]) u(id, lease) on j.id = u.id and j.lease = u.lease
 where j.state = 'running' order by j.id for no key update of j;

-- name: reset_attempts
-- Jobs that made progress count their attempts from one again; the caller has proved their leases.
update job set attempt = 1 where id = any (%(ids)s::uuid[]) and attempt > 1;

-- name: postpone
-- running -> delayed, or queued when the delay is zero; cancelled if that was requested meanwhile.
select job_requeue(array[j.id], %(delay)s::interval, %(counted)s, %(error)s::jsonb)
  from (select id from job where id = %(id)s and lease = %(lease)s and state = 'running' for update) j;

-- name: bury
-- running -> dead: visible, and retried only by an operator. Older dead jobs of its kind about the same are dismissed.
with mine as materialized (
    select kind, subject, key from job where id = %(id)s and lease = %(lease)s and state = 'running'),
outlived as materialized (
    select job_dismiss(array(
        select d.id from mine m join job d on d.subject = m.subject and d.kind = m.kind and d.state = 'dead'
        union all
        select d.id from mine m join job d on m.subject is null and d.key = m.key and d.state = 'dead')) from mine)
update job
   set state = 'dead', lease = null, worker = null,
       errors = errors || (%(error)s::jsonb || jsonb_build_object('at', clock_now(), 'attempt', attempt))
  from outlived
 where id = %(id)s and lease = %(lease)s and state = 'running'
returning id;

-- name: finish_cancel
-- running -> cancelled, when the worker has stopped it.
select job_archive(array[j.id], 'cancelled')
  from (select id from job where id = %(id)s and lease = %(lease)s and state = 'running' for update) j;

-- name: finish_requested_cancel
-- running -> cancelled, if that was requested: the job has ended by itself.
select job_archive(array[j.id], 'cancelled')
  from (select id from job where id = %(id)s and lease = %(lease)s and state = 'running' and cancelling for update) j;

-- name: requeue_all
-- running -> queued, all jobs of a worker that stops; the attempt is not counted.
select job_requeue(array(select id from job where worker = %(worker)s and state = 'running' order by id for update),
                  '0', false, '{"code": "worker_stopped", "message": "The worker that ran this job was stopped."}');

-- name: cancel
-- queued | delayed -> cancelled; running jobs are signalled.
select removed, signalled from job_cancel(%(ids)s::uuid[]);

-- name: dismiss_dead
-- dead -> dismissed; the ids of those that were dead.
with dead as materialized (
    select id from job where id = any (%(ids)s::uuid[]) and state = 'dead' order by id for update),
archived as materialized (select job_archive(array(select id from dead), 'dismissed'))
select dead.id from dead, archived;

-- name: dismiss_dead_by_subject
-- dead -> dismissed, for the dead jobs about these subjects.
select job_dismiss(array(select id from job where subject = any (%(subjects)s::uuid[]) and state = 'dead'));

-- name: delete_dead_by_subject
-- Dead jobs about things that no longer exist.
delete from job where subject = any (%(subjects)s::uuid[]) and state = 'dead';

-- name: subject_job_ids
-- The living jobs about these subjects.
select id from job where subject = any (%(subjects)s::uuid[]) and state <> 'dead' order by id;

-- name: run_now
-- delayed -> queued, for jobs about these subjects.
with due as (
    update job set state = 'queued', run_at = clock_now()
     where subject = any (%(subjects)s::uuid[]) and state = 'delayed' returning lane, priority)
select lane_wake(array_agg(distinct lane), coalesce(array_agg(distinct lane) filter (where priority = 0), '{}')),
       pg_notify('job', '') from due having count(*) > 0;

-- name: run_waiting_now
-- delayed -> queued, for the jobs of an organisation, or of one lane of it, whose last error has this code.
with due as (
    update job set state = 'queued', run_at = clock_now()
     where state = 'delayed' and errors -> -1 ->> 'code' = %(code)s and (%(lane)s::text is null or lane = %(lane)s)
       and lane in (select o.lane from lane_owner o where o.org_id = %(org)s) returning lane, priority)
select lane_wake(array_agg(distinct lane), coalesce(array_agg(distinct lane) filter (where priority = 0), '{}')),
       pg_notify('job', '') from due having count(*) > 0;

-- name: put_off
-- Lets a delayed job wait from now on; no row if it is not delayed any more.
update job set run_at = clock_now() + %(delay)s where id = %(id)s and state = 'delayed' returning id;

-- name: retry_dead
-- dead -> queued, with all attempts again; not while a living job has the key.
with back as (
    update job j set state = 'queued', attempt = 0, run_at = clock_now()
     where j.id = any (%(ids)s::uuid[]) and j.state = 'dead'
       and not exists (select from job o where o.key = j.key and o.state <> 'dead')
    returning j.id, j.lane, j.priority),
woken as (
    select lane_wake(array_agg(distinct lane), coalesce(array_agg(distinct lane) filter (where priority = 0), '{}')),
           pg_notify('job', '') from back having count(*) > 0)
select b.id from back b left join woken on true;

-- name: running_jobs
-- The jobs that a worker runs according to the database.
select id, cancelling from job where worker = %(worker)s and state = 'running';

-- name: requeue_unknown
-- running -> queued, for jobs that their worker does not run; the attempt is not counted.
select job_requeue(array(select id from job where id = any (%(ids)s::uuid[]) and worker = %(worker)s
                           and state = 'running' order by id for update), '0', false, null);

-- name: renew_lease
-- One statement renews every lease of a worker; no row when the worker was declared gone.
update worker set heartbeat_at = clock_now(), lease_until = clock_now() + %(lease)s::interval where id = %(worker)s returning id;

-- name: count_workers
-- Workers whose lease has not expired.
select count(*)::int from worker where lease_until > clock_now();

-- name: register_worker
-- Registers a worker.
insert into worker (id, info, lock_key, lease_until)
values (%(worker)s, %(info)s, %(lock_key)s, clock_now() + %(lease)s::interval);

-- name: unregister_worker
-- Deletes the row of a worker.
delete from worker where id = %(worker)s;

-- name: tick
-- Queues due jobs, and requeues the jobs of workers that are gone.
select promoted, expired, next_in from job_tick();

-- name: sweep
-- Deletes finished jobs after the retention.
delete from job_history where id in (
    select id from job_history where finished_at < clock_now() - %(retention)s::interval order by finished_at limit 5000);

-- name: count_waiting
-- How many jobs of a lane, or of all, are queued or delayed; of each no more than a limit is counted.
select (select count(*) from (
            select from job where state = 'queued' and (%(lane)s::text is null or lane = %(lane)s)
               and kind <> all (%(excluded_kinds)s::text[]) limit %(limit)s) queued)::int
     + (select count(*) from (
            select from job where state = 'delayed' and (%(lane)s::text is null or lane = %(lane)s)
               and kind <> all (%(excluded_kinds)s::text[]) limit %(limit)s) delayed)::int;

-- name: counts
-- Living jobs by kind and state, of one lane or of all.
select kind, state::text as state, sum(count)::int as count from job_count
 where %(lane)s::text is null or lane = %(lane)s group by kind, state having sum(count) > 0 order by kind, state;

-- name: oldest_waiting_at
-- When the oldest job that waits in a lane was enqueued.
select lane_oldest_waiting_at(%(lane)s);

-- name: counts_by_lane
-- Living jobs by lane, kind and state; lanes of other organisations are summed up as one.
select case when o.org_id = %(org)s then c.lane else 'other' end as lane, c.kind, c.state::text as state,
       sum(c.count)::int as count
  from job_count c left join lane_owner o on o.lane = c.lane group by 1, 2, 3 having sum(c.count) > 0 order by 1, 2, 3;

-- name: lanes_with_wrong_counts
-- Lanes whose counts are not those of their jobs.
select distinct lane from job_count_errors() order by 1 limit %(limit)s;

-- name: correct_counts
-- Appends what the counts lack.
insert into job_count (lane, kind, state, count) select lane, kind, state, missing from job_count_errors();

-- name: done_last_minute
-- Jobs done in the last minute, of one lane or of all.
select count(*)::int from job_history
 where finished_at > clock_now() - interval '1 minute' and outcome = 'done'
   and (%(lane)s::text is null or lane = %(lane)s);

-- name: pace
-- Jobs done by a lane, or by each lane, and in how many seconds, since its work began: in the last ten minutes at most.
-- Work began with the first job that started after the oldest one that is still there was enqueued.
select l.lane, count(*)::int as done, extract(epoch from clock_now() - min(h.started_at))::float8 as seconds
  from (select c.lane, least(lane_oldest_waiting_at(c.lane), (
                   select min(j.created_at) from job j where j.lane = c.lane and j.state = 'running')) as since
          from job_count c where c.state <> 'dead' and (%(lane)s::text is null or c.lane = %(lane)s)
         group by c.lane having sum(c.count) > 0) l
  join job_history h on h.lane = l.lane and h.outcome = 'done' and h.started_at >= l.since
   and h.finished_at > clock_now() - interval '10 minutes'
 group by l.lane;

-- name: active_subjects
-- The subjects of the running jobs of a lane.
select distinct subject from job where lane = %(lane)s and state = 'running' and subject is not null;

-- name: find_jobs
-- Living and finished jobs, newest first, after a cursor.
select * from (
    select id, kind, lane, state::text as state, priority, subject, payload, attempt, max_attempts, errors, result, created_at,
           started_at, case when state = 'delayed' then run_at end as run_at, null::timestamptz as finished_at
      from job
    union all
    select id, kind, lane, outcome, priority, subject, '{}', attempt, max_attempts, errors, result, created_at, started_at,
           null, finished_at
      from job_history) j
 where (%(state)s::text is null or state = %(state)s) and (%(kind)s::text is null or kind = %(kind)s)
   and (%(lane)s::text is null or lane = %(lane)s) and (%(subject)s::uuid is null or subject = %(subject)s)
   and (%(org)s::uuid is null or lane in (select o.lane from lane_owner o where o.org_id = %(org)s))
   and (%(before)s::uuid is null or id < %(before)s)
 order by id desc limit %(limit)s;

-- name: find_job
-- One job, living or finished.
select * from (
    select id, kind, lane, state::text as state, priority, subject, payload, attempt, max_attempts, errors, result, created_at,
           started_at, case when state = 'delayed' then run_at end as run_at, null::timestamptz as finished_at
      from job
    union all
    select id, kind, lane, outcome, priority, subject, '{}', attempt, max_attempts, errors, result, created_at, started_at,
           null, finished_at
      from job_history) j
 where id = %(id)s;

-- name: set_lane_owner
-- Records the organisation of a lane, for good.
insert into lane_owner (lane, org_id) values (%(lane)s, %(org)s) on conflict do nothing;

-- name: lane_owner
-- The organisation of a lane.
select org_id from lane_owner where lane = %(lane)s;

-- name: now
-- The only clock.
select clock_now();

-- name: put_schedule
-- Creates or changes a schedule; its next time changes only with its cron expression.
insert into schedule (name, cron, next_at, kind, lane, priority, max_attempts, key, subject, payload)
values (%(name)s, %(cron)s, %(next_at)s, %(kind)s, %(lane)s, %(priority)s, %(attempts)s, %(key)s, %(subject)s,
        %(payload)s::text::jsonb)
on conflict (name) do update
   set cron = excluded.cron, kind = excluded.kind, lane = excluded.lane, priority = excluded.priority,
       max_attempts = excluded.max_attempts, key = excluded.key, subject = excluded.subject, payload = excluded.payload,
       next_at = case when schedule.cron = excluded.cron then schedule.next_at else excluded.next_at end;

-- name: remove_schedules
-- Deletes schedules.
delete from schedule where name = any (%(names)s::text[]);

-- name: lock_due_schedule
-- A schedule that is due and that no other worker is firing.
select name, cron, clock_now() as now from schedule
 where next_at <= clock_now() order by next_at limit 1 for update skip locked;

-- name: fire_schedule
-- Enqueues a schedule's job and sets its next time, in one statement.
with fired as (
    update schedule set last_at = clock_now(), next_at = %(next_at)s where name = %(name)s returning *)
select e.id from fired f, job_enqueue(
    json_build_array(json_build_object('kind', f.kind, 'lane', f.lane, 'priority', f.priority, 'workload', 0, 'key', f.key,
                                       'subject', f.subject, 'payload', f.payload, 'attempts', f.max_attempts)),
    1, array[f.lane], case when f.priority = 0 then array[f.lane] else '{}'::text[] end) e;

-- name: set_paused
-- Pauses or resumes a lane; a resumed one starts level with the others, and wakes the workers.
with changed as (
    insert into lane as l (lane, paused) values (%(lane)s, %(paused)s)
    on conflict (lane) do update
       set paused = excluded.paused,
           virtual_time = greatest(l.virtual_time, (select min(b.virtual_time) from lane b
                                                    where b.busy and not b.paused and b.pool = l.pool))
     where l.paused is distinct from excluded.paused
    returning lane)
select pg_notify('job', '') from changed where not %(paused)s;

-- name: is_paused
-- Whether a lane is paused.
select paused from lane where lane = %(lane)s;

-- name: lanes
-- Lanes of an organisation with their living jobs, the busiest first.
with living as (
    select c.lane, sum(c.count) filter (where c.state in ('queued', 'delayed'))::int as waiting,
           sum(c.count) filter (where c.state = 'running')::int as running, sum(c.count) filter (where c.state = 'dead')::int as dead
      from job_count c join lane_owner o on o.lane = c.lane and o.org_id = %(org)s group by c.lane),
shown as (
    select l.lane, l.paused, l.cap, coalesce(v.waiting, 0) as waiting, coalesce(v.running, 0) as running,
           coalesce(v.dead, 0) as dead
      from lane l join lane_owner o on o.lane = l.lane and o.org_id = %(org)s left join living v on v.lane = l.lane
     order by 5 desc, 4 desc, 6 desc, 1 desc limit %(limit)s)
select s.*, (select j.subject from job j where j.lane = s.lane and j.state = 'running' and j.subject is not null
              order by j.started_at limit 1) as subject
  from shown s order by s.running desc, s.waiting desc, s.dead desc, s.lane desc;

-- name: throughput
-- Jobs that an organisation's lanes have done lately, by equal steps of time; the last step ends now.
select h.lane, least(%(steps)s - 1, floor(%(steps)s * extract(epoch from h.finished_at - s.since)
                     / extract(epoch from %(window)s::interval)))::int as step, count(*)::int as done
  from (select clock_now() - %(window)s::interval as since) s, job_history h
  join lane_owner o on o.lane = h.lane and o.org_id = %(org)s
 where h.finished_at > s.since and h.outcome = 'done' group by 1, 2;

-- name: workers
-- Every worker, with the number of jobs it runs, and whether its lease holds.
select w.id, w.info, w.started_at, w.heartbeat_at, w.lease_until > clock_now() as alive,
       (select count(*)::int from job j where j.worker = w.id and j.state = 'running') as running
  from worker w order by w.started_at, w.id;
