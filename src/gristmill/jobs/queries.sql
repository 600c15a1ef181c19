-- name: enqueue
-- () -> queued | delayed, in the caller's transaction; a row per job, in order.
select id, created
  from job_enqueue(%(kinds)s::text[], %(lanes)s::text[], %(bands)s::smallint[], %(workloads)s::real[], %(keys)s::text[],
                   %(subjects)s::uuid[], %(payloads)s::jsonb[], %(attempts)s::smallint[], %(delays)s::interval[]);

-- name: claim
-- queued -> running, fair across lanes, under the caps.
select id, kind, lane, band, payload, subject, attempt, max_attempts, lease, created_at
  from job_claim(%(worker)s, %(limit)s::int, %(general)s::int, %(lane_cap)s::int, %(global_cap)s::int);

-- name: complete
-- running -> done, for the jobs whose lease still holds.
select job_complete(%(ids)s::uuid[], %(leases)s::uuid[]);

-- name: fence
-- Locks a running job for the rest of the transaction, only while the caller still holds its lease.
select id from job where id = %(id)s and lease = %(lease)s and state = 'running' for no key update;

-- name: postpone
-- running -> delayed, or queued when the delay is zero; an uncounted attempt is given back.
update job
   set state = case when %(delay)s::interval > interval '0' then 'delayed' else 'queued' end::job_state,
       run_at = clock_now() + %(delay)s::interval, lease = null, worker = null,
       attempt = attempt - case when %(counted)s then 0 else 1 end,
       errors = case when %(error)s::jsonb is null then errors
                     else errors || (%(error)s::jsonb || jsonb_build_object('at', clock_now(), 'attempt', attempt)) end
 where id = %(id)s and lease = %(lease)s and state = 'running'
returning lane, band, state::text;

-- name: bury
-- running -> dead: visible, and retried only by hand.
update job
   set state = 'dead', lease = null, worker = null,
       errors = errors || (%(error)s::jsonb || jsonb_build_object('at', clock_now(), 'attempt', attempt))
 where id = %(id)s and lease = %(lease)s and state = 'running'
returning id;

-- name: withdraw
-- running -> cancelled, when the worker has stopped it.
with gone as (
    delete from job where id = %(id)s and lease = %(lease)s and state = 'running'
    returning id, kind, lane, subject, attempt, errors, created_at, started_at)
insert into job_history (id, kind, lane, subject, outcome, attempt, errors, created_at, started_at, finished_at)
select id, kind, lane, subject, 'cancelled', attempt, errors, created_at, started_at, clock_now() from gone
returning id;

-- name: release_all
-- running -> queued, all jobs of a worker that stops; the attempt is not counted.
update job set state = 'queued', lease = null, worker = null, attempt = attempt - 1
 where worker = %(worker)s and state = 'running'
returning lane, band;

-- name: cancel
-- queued | delayed -> cancelled; running jobs are told.
select removed, told from job_cancel(%(ids)s::uuid[]);

-- name: of_subjects
-- The living jobs about these subjects.
select id from job where subject = any (%(subjects)s::uuid[]) and state <> 'dead' order by id;

-- name: wake_lanes
-- Lets lanes take part in the round again.
select lane_wake(%(lanes)s::text[], %(urgent)s::text[]);

-- name: notify
-- Wakes the workers at commit.
select pg_notify('job', '');

-- name: cancelling
-- Which of a worker's jobs were cancelled.
select id from job where worker = %(worker)s and state = 'running' and cancelling;

-- name: beat
-- One statement renews every lease of a worker; no row when the worker was declared gone.
update worker set lease_until = clock_now() + %(lease)s::interval where id = %(worker)s returning id;

-- name: enrol
-- A worker joins.
insert into worker (id, info, lease_until) values (%(worker)s, %(info)s, clock_now() + %(lease)s::interval);

-- name: leave
-- A worker leaves.
delete from worker where id = %(worker)s;

-- name: tick
-- Due jobs join the queue; jobs of workers that are gone return to it.
select promoted, expired, next_in from job_tick();

-- name: sweep
-- Forgets finished jobs after the retention.
delete from job_history where id in (
    select id from job_history where finished_at < clock_now() - %(retention)s::interval order by finished_at limit 5000);

-- name: counts
-- Living jobs by lane and state; all lanes when none is given.
select state::text as state, count(*)::int as count
  from job where %(lane)s::text is null or lane = %(lane)s group by state;

-- name: recent_done
-- Jobs of a lane finished in the last minute, for the rate.
select count(*)::int from job_history
 where finished_at > clock_now() - interval '1 minute' and outcome = 'done'
   and (%(lane)s::text is null or lane = %(lane)s);
