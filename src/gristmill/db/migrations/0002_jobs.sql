-- The job engine. It knows no documents: a job is a kind, a payload and a lane.

create type job_state as enum ('queued', 'delayed', 'running', 'dead');

--        enqueue            claim             complete
--     ()  ─────→  queued  ─────────→  running  ───────→  history: done
--                  ↑   ↑                │ │ │
--         promote  │   └─ return ───────┘ │ └─ cancel ─→  history: cancelled, from queued and delayed too
--               delayed ←─ return later ──┤
--                                         └─ bury ─→  dead  ── retry ─→  queued
create table job (
    id              uuid primary key default uuidv7(),      -- also the order within a lane and band
    kind            text not null,
    lane            text collate "C" not null,              -- who shares: fairness and caps count by lane
    band            smallint not null default 1,            -- 0 interactive, 1 normal, 2 bulk
    state           job_state not null default 'queued',
    workload        real not null default 0,                -- estimated cost, in bytes of input
    key             text collate "C",                       -- unique while the job lives
    subject         uuid,                                   -- what the job is about: cancel goes by it
    payload         jsonb not null default '{}',
    attempt         smallint not null default 0,            -- counted at claim
    max_attempts    smallint not null default 5,
    run_at          timestamptz not null default clock_now(),
    lease           uuid,                                   -- new at every claim; every result write proves it
    worker          uuid,
    cancelling      boolean not null default false,
    errors          jsonb not null default '[]',            -- one entry per failed attempt, oldest first
    result          jsonb,                                  -- what the work has to tell, as far as it is done
    created_at      timestamptz not null default clock_now(),
    started_at      timestamptz
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0);

create index job_queued on job (lane, band, id) where state = 'queued';
create index job_running on job (lane) where state = 'running';
create index job_delayed on job (run_at) where state = 'delayed';
create index job_dead on job (lane, id) where state = 'dead';
create unique index job_key on job (key) where key is not null and state <> 'dead';
create index job_subject on job (subject) where subject is not null;

-- Finished jobs, kept for timelines and rates, swept after a retention.
create table job_history (
    id              uuid primary key,
    kind            text not null,
    lane            text collate "C" not null,
    subject         uuid,
    outcome         text not null check (outcome in ('done', 'cancelled')),
    band            smallint not null,
    attempt         smallint not null,
    max_attempts    smallint not null,
    errors          jsonb not null,
    result          jsonb,
    created_at      timestamptz not null,
    started_at      timestamptz,
    finished_at     timestamptz not null
);
-- Rows come in the order they finish: a block range index costs next to nothing to keep.
create index job_history_finished on job_history using brin (finished_at) with (pages_per_range = 16, autosummarize = on);
create index job_history_subject on job_history (subject, finished_at) where subject is not null;

-- One row per worker process; its jobs are its own until lease_until. While it lives it holds an advisory lock,
-- which PostgreSQL frees the moment its connection ends: a worker that is killed is known to be gone within seconds.
create table worker (
    id              uuid primary key,
    info            jsonb not null default '{}',
    lock_key        int,                                    -- null: it holds none, and only its lease counts
    started_at      timestamptz not null default clock_now(),
    beat_at         timestamptz not null default clock_now(),
    lease_until     timestamptz not null
);

-- Whose turn it is. `served` is virtual time: what the lane was given, divided by its weight; the lane with
-- the least is next. `busy` may be true with nothing queued, never false with something queued: who enqueues
-- holds the row FOR KEY SHARE, and only who gets it FOR UPDATE (so nobody is enqueueing) may clear it.
create table lane (
    lane            text collate "C" primary key,
    weight          real not null default 1 check (weight > 0),
    cap             int check (cap >= 0),                   -- null: the claimer's default
    paused          boolean not null default false,
    served          double precision not null default 0,
    busy            boolean not null default false,         -- may hold queued jobs
    urgent          boolean not null default false          -- may hold queued jobs of band 0
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
create index lane_busy on lane (served) where busy and not paused;
create index lane_urgent on lane (served) where urgent and not paused;

-- A job to enqueue at the times of a cron expression.
create table schedule (
    name            text primary key,
    cron            text not null,
    next_at         timestamptz not null,
    last_at         timestamptz,
    kind            text not null,
    lane            text collate "C" not null,
    band            smallint not null,
    max_attempts    smallint not null,
    key             text collate "C",
    subject         uuid,
    payload         jsonb not null
);
create index schedule_due on schedule (next_at);

-- What a job costs its lane: every job something, a large one more. 64 KiB count as one job.
create function job_charge(workload real) returns double precision
    language sql immutable parallel safe as 'select 1 + workload::double precision / 65536';

-- Let the lanes take part in the round from now on. A lane that was idle starts level with the others:
-- what it did not use is not saved up.
create function lane_wake(p_lanes text[], p_urgent text[]) returns void language plpgsql as $$
begin
    insert into lane (lane) select distinct u.lane from unnest(p_lanes) u(lane) order by 1 on conflict do nothing;
    perform from lane l where l.lane = any (p_lanes) order by l.lane for key share;
    update lane l
       set busy = true,
           urgent = l.urgent or l.lane = any (p_urgent),
           served = case when l.busy then l.served
                         else greatest(l.served, (select min(b.served) from lane b where b.busy and not b.paused)) end
      from (select w.lane from lane w
             where w.lane = any (p_lanes) and (not w.busy or (w.lane = any (p_urgent) and not w.urgent))
             order by w.lane for no key update) w
     where l.lane = w.lane;
end $$;

-- Insert p_count jobs in the caller's transaction. Gives one row per input, in order: the job's id, and whether it
-- is new or the one that already lives under its key. One JSON text is by far the cheapest way to send many rows
-- that a function can take: nine arrays cost the client twice as much.
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
        insert into job (id, kind, lane, band, workload, key, subject, payload, max_attempts, state, run_at)
        select v_ids[u.n], u.kind, u.lane, u.band, u.workload, u.key, u.subject, u.payload, u.attempts,
               case when u.delay is null then 'queued' else 'delayed' end::job_state,
               clock_now() + coalesce(u.delay, '0')
          from rows from (json_to_recordset(p_jobs) as (kind text, lane text, band smallint, workload real, key text,
                          subject uuid, payload jsonb, attempts smallint, delay interval)) with ordinality
               as u(kind, lane, band, workload, key, subject, payload, attempts, delay, n)
         where v_new is null or not exists (select from job j where j.id = v_ids[u.n])
        on conflict (key) where key is not null and state <> 'dead' do nothing;
        if v_new is null then
            get diagnostics v_new = row_count;
            if v_new = p_count then
                return query select u.id, true from unnest(v_ids) u(id);
                return;
            end if;
            v_keys := array(select j ->> 'key' from json_array_elements(p_jobs) j);
        end if;
        -- A job that lives under a key may be gone a moment later: then ours goes in after all.
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

-- How many more jobs of a lane may run, as far as this statement's snapshot sees.
create function lane_room(p_lane text, p_cap int) returns int
    language sql stable as $$
    select p_cap - count(*)::int from (select from job r where r.lane = p_lane and r.state = 'running' limit p_cap) r
$$;

-- Take the lanes whose turn it is and which have room, and lock them: only their holder starts jobs of them. A lane
-- that another claims from, or that is being woken, is passed over, not waited for: the worker looks again soon.
create function lane_take(p_limit int, p_cap int, p_urgent boolean, p_not text[]) returns text[]
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off as $$
begin
    if p_urgent then
        return array(
            select l.lane from lane l
             where l.urgent and not l.paused and l.lane <> all (p_not) and lane_room(l.lane, coalesce(l.cap, p_cap)) > 0
             order by l.served limit p_limit for no key update skip locked);
    end if;
    return array(
        select l.lane from lane l
         where l.busy and not l.paused and l.lane <> all (p_not) and lane_room(l.lane, coalesce(l.cap, p_cap)) > 0
         order by l.served limit p_limit for no key update skip locked);
end $$;

-- Start up to p_limit jobs of lanes that the caller has locked, and charge the lanes for them. The snapshot is
-- newer than the locks, so that the running counts are exact and the caps hold across all workers. The jobs
-- taken are those with the earliest virtual start: lanes share by weight and workload, FIFO within lane and band.
-- Lanes that ran dry leave the round.
create function lane_start(p_lanes text[], p_worker uuid, p_limit int, p_cap int, p_band int)
returns table (id uuid, kind text, lane text, band smallint, payload jsonb, subject uuid, attempt smallint,
               max_attempts smallint, lease uuid, interrupted boolean)
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
    v_lease uuid := gen_random_uuid();
    v_each int := case when cardinality(p_lanes) = 1 then p_limit else 1 + 2 * p_limit / cardinality(p_lanes) end;
    v_rows tid[];
    v_of text[];
    v_costs double precision[];
    v_dry text[];
begin
    with room as materialized (
        select l.lane, l.served, l.weight, lane_room(l.lane, coalesce(l.cap, p_cap)) as free
          from lane l where l.lane = any (p_lanes)),
    head as materialized (
        select r.lane, h.row, h.cost, r.served + h.before as start, h.row is null or h.last and not h.full as dry
          from room r
          left join lateral (
            select q.ctid as row, q.cost, sum(q.cost) over w - q.cost as before,
                   row_number() over w = count(*) over () as last,
                   count(*) over () = least(r.free, v_each) as full
              from (select j.ctid, j.band, j.id, job_charge(j.workload) / r.weight as cost from job j
                     where j.lane = r.lane and j.state = 'queued' and j.band <= p_band
                     order by j.band, j.id limit least(r.free, v_each)) q
            window w as (order by q.band, q.id)) h on true
         where r.free > 0),
    picked as (
        select h.row, h.lane, h.cost from head h where h.row is not null order by h.start limit p_limit)
    select array_agg(p.row), array_agg(p.lane), array_agg(p.cost),
           (select array_agg(h.lane) from head h where h.dry)
      into v_rows, v_of, v_costs, v_dry from picked p;
    if v_rows is not null then
        return query
        with locked as materialized (   -- a job that is being cancelled is passed over, not waited for
            select j.ctid as row, u.cost from unnest(v_rows, v_costs) u(row, cost)
              join job j on j.ctid = u.row and j.state = 'queued' for update of j skip locked),
        started as (
            update job j
               set state = 'running', attempt = j.attempt + 1, lease = v_lease, worker = p_worker, started_at = clock_now()
              from locked where j.ctid = locked.row
            returning j.id, j.kind, j.lane, j.band, j.payload, j.subject, j.attempt, j.max_attempts, j.lease, locked.cost,
                      coalesce(j.errors -> -1 ->> 'code' in ('worker_lost', 'worker_stopped'), false) as interrupted),
        charged as (
            update lane l set served = l.served + s.cost
              from (select started.lane, sum(started.cost) as cost from started group by 1) s where l.lane = s.lane)
        select s.id, s.kind, s.lane, s.band, s.payload, s.subject, s.attempt, s.max_attempts, s.lease, s.interrupted
          from started s;
    end if;
    if v_dry is not null then
        perform lane_rest(v_dry);
    end if;
end $$;

-- Take lanes without queued jobs out of the round, unless somebody is enqueueing into them right now.
create function lane_rest(p_lanes text[]) returns void
language plpgsql set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    v_free text[] := array(
        select l.lane from lane l where l.lane = any (p_lanes) order by l.lane for update skip locked);
begin
    -- A newer snapshot than the lock's: what was enqueued before we held it is seen here.
    update lane l
       set busy = exists (select from job j where j.lane = l.lane and j.state = 'queued'),
           urgent = exists (select from job j where j.lane = l.lane and j.state = 'queued' and j.band = 0)
     where l.lane = any (v_free);
end $$;

-- Claim up to p_limit jobs, of which at most p_general of other bands than the interactive one. The cost depends
-- on p_limit and on how many lanes are full, never on how many jobs are queued.
create function job_claim(p_worker uuid, p_limit int, p_general int, p_cap int, p_global_cap int)
returns table (id uuid, kind text, lane text, band smallint, payload jsonb, subject uuid, attempt smallint,
               max_attempts smallint, lease uuid, interrupted boolean)
language plpgsql as $$
#variable_conflict use_column
declare
    v_lanes text[];
    v_seen text[] := '{}';
    v_left int := p_limit;
    v_got int := 0;
begin
    if p_global_cap is not null then    -- an exact cap over all workers: claimers take turns
        perform pg_advisory_xact_lock(hashtext('gristmill.claim'));
        select least(v_left, p_global_cap - count(*)) into v_left
          from (select from job r where r.state = 'running' limit p_global_cap) r;
    end if;
    if v_left > 0 and exists (select from lane l where l.urgent and not l.paused) then
        v_lanes := lane_take(v_left, p_cap, true, '{}');
        if v_lanes <> '{}' then
            return query select * from lane_start(v_lanes, p_worker, v_left, p_cap, 0);
            get diagnostics v_got = row_count;
        end if;
    end if;
    v_left := least(v_left - v_got, p_general);
    while v_left > 0 loop
        v_lanes := lane_take(v_left, p_cap, false, v_seen);
        exit when v_lanes = '{}';
        return query select * from lane_start(v_lanes, p_worker, v_left, p_cap, 2);
        get diagnostics v_got = row_count;
        exit when v_got > 0;            -- else they were dry, and have left the round: look at the next
        v_seen := v_seen || v_lanes;    -- … or somebody is enqueueing into them, and they have not
    end loop;
end $$;

-- running → done, for each job whose lease the caller still holds; the ids that were.
create function job_complete(p_ids uuid[], p_leases uuid[]) returns setof uuid language sql as $$
    with gone as (
        delete from job j using unnest(p_ids, p_leases) d(id, lease)
         where j.id = d.id and j.lease = d.lease and j.state = 'running'
        returning j.id, j.kind, j.lane, j.subject, j.band, j.attempt, j.max_attempts, j.errors, j.result, j.created_at,
                  j.started_at)
    insert into job_history (id, kind, lane, subject, outcome, band, attempt, max_attempts, errors, result, created_at,
                             started_at, finished_at)
    select g.id, g.kind, g.lane, g.subject, 'done', g.band, g.attempt, g.max_attempts, g.errors, g.result, g.created_at,
           g.started_at, clock_now() from gone g
    returning id
$$;

-- What a worker does over and over, in one round trip and one commit: settle what is done, claim what there is room for.
create function job_cycle(p_done uuid[], p_leases uuid[], p_worker uuid, p_limit int, p_general int, p_cap int,
                          p_global_cap int)
returns table (id uuid, kind text, lane text, band smallint, payload jsonb, subject uuid, attempt smallint,
               max_attempts smallint, lease uuid, interrupted boolean)
language plpgsql as $$
begin
    if cardinality(p_done) > 0 then
        perform job_complete(p_done, p_leases);
    else
        -- A claim that a crash of the server forgets was never made: its jobs are queued as before.
        set local synchronous_commit = off;
    end if;
    if p_limit > 0 then
        return query select * from job_claim(p_worker, p_limit, p_general, p_cap, p_global_cap);
    end if;
end $$;

-- running → queued, or delayed when p_delay is not zero. What was cancelled meanwhile does not come back: → cancelled.
-- The caller has locked the jobs, and has the right to move them; an uncounted attempt is given back.
create function job_return(p_ids uuid[], p_delay interval, p_counted boolean, p_error jsonb) returns int
language plpgsql as $$
declare
    v_lanes text[];
    v_urgent text[];
begin
    perform job_end(array(select j.id from job j where j.id = any (p_ids) and j.state = 'running' and j.cancelling));
    with back as (
        update job j
           set state = case when p_delay > interval '0' then 'delayed' else 'queued' end::job_state,
               run_at = clock_now() + p_delay, lease = null, worker = null,
               attempt = j.attempt - case when p_counted then 0 else 1 end,
               errors = case when p_error is null then j.errors
                             else j.errors || (p_error || jsonb_build_object('at', clock_now(), 'attempt', j.attempt)) end
         where j.id = any (p_ids) and j.state = 'running' and not j.cancelling
        returning j.lane, j.band)
    select array_agg(distinct b.lane), array_agg(distinct b.lane) filter (where b.band = 0)
      into v_lanes, v_urgent from back b;
    if v_lanes is not null and p_delay <= interval '0' then
        perform lane_wake(v_lanes, coalesce(v_urgent, '{}'));
        perform pg_notify('job', '');
    end if;
    return cardinality(p_ids);
end $$;

-- queued | delayed | running → cancelled. The caller has locked the jobs.
create function job_end(p_ids uuid[]) returns int language sql as $$
    with gone as (
        delete from job j where j.id = any (p_ids)
        returning j.id, j.kind, j.lane, j.subject, j.band, j.attempt, j.max_attempts, j.errors, j.result, j.created_at,
                  j.started_at),
    kept as (
        insert into job_history (id, kind, lane, subject, outcome, band, attempt, max_attempts, errors, result, created_at,
                             started_at, finished_at)
        select g.id, g.kind, g.lane, g.subject, 'cancelled', g.band, g.attempt, g.max_attempts, g.errors, g.result, g.created_at, g.started_at,
               clock_now()
          from gone g returning 1)
    select count(*)::int from kept
$$;

-- Cancel jobs: those that wait are gone at once, those that run are told and stop at their next edge.
create function job_cancel(p_ids uuid[]) returns table (removed int, told int) language plpgsql as $$
begin
    removed := job_end(array(
        select j.id from job j where j.id = any (p_ids) and j.state in ('queued', 'delayed') order by j.id for update));
    -- A newer snapshot: what was claimed while we waited for its row is running by now.
    with hit as (
        select j.id from job j where j.id = any (p_ids) and j.state = 'running' order by j.id for no key update),
    asked as (update job j set cancelling = true from hit where j.id = hit.id returning j.worker)
    select coalesce(sum(n.jobs), 0) into told from (
        select a.jobs, pg_notify('job_cancel', a.worker::text)
          from (select worker, count(*) as jobs from asked group by 1) a) n;
    return next;
end $$;

-- Housekeeping, by whichever worker comes first: due jobs join the queue, jobs of workers that are gone return to it.
create function job_tick() returns table (promoted int, expired int, next_in interval)
language plpgsql set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    v_lanes text[];
    v_urgent text[];
begin
    promoted := 0; expired := 0;
    if pg_try_advisory_xact_lock(hashtext('gristmill.tick')) then
        with due as (
            select j.id from job j where j.state = 'delayed' and j.run_at <= clock_now()
             order by j.run_at limit 1000 for update skip locked),
        up as (update job j set state = 'queued' from due where j.id = due.id returning j.lane, j.band)
        select count(*), array_agg(distinct up.lane), array_agg(distinct up.lane) filter (where up.band = 0)
          into promoted, v_lanes, v_urgent from up;
        if promoted > 0 then
            perform lane_wake(v_lanes, coalesce(v_urgent, '{}'));
            perform pg_notify('job', '');
        end if;
        delete from worker w
         where w.lease_until < clock_now()
            or (w.beat_at < clock_now() - interval '3 seconds' and w.lock_key is not null and not exists (
                    select from pg_locks l
                     where l.locktype = 'advisory' and l.objsubid = 2 and l.granted
                       and l.classid = 1735551596 and l.objid = w.lock_key
                       and l.database = (select oid from pg_database where datname = current_database())));
        expired := job_return(array(
            select j.id from job j
             where j.state = 'running' and not exists (select from worker w where w.id = j.worker)
             order by j.id for update skip locked), '0', true,
            '{"code": "worker_lost", "message": "The worker that ran this job is gone."}');
    end if;
    select j.run_at - clock_now() into next_in from job j where j.state = 'delayed' order by j.run_at limit 1;
    return next;
end $$;
