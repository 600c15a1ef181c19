-- Claiming jobs, fairly across lanes, below their caps and within the room that the claimer has.

-- How many more jobs of a lane may run, as of this statement's snapshot: below its cap over all workers, and no more than the
-- claimer has room for. p_room has the claimer's room by lane, p_new_room is that of a lane without jobs there.
create function lane_free_slots(p_lane text, p_cap int, p_room jsonb, p_new_room int) returns int
    language sql stable as $$
    select least(coalesce((p_room ->> p_lane)::int, p_new_room),
                 p_cap - (select count(*)::int from (
                              select from job r where r.lane = p_lane and r.state = 'running' limit p_cap) r))
$$;

-- Locks the next lanes of the round-robin that have free slots: only the holder of the lock starts their jobs. A lane
-- that another worker has locked, or that is being woken, is skipped, not waited for: the worker polls again soon.
create function lane_lock_next(p_limit int, p_cap int, p_room jsonb, p_new_room int, p_urgent boolean, p_not text[])
returns text[]
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off as $$
begin
    if p_urgent then
        return array(
            select l.lane from lane l
             where l.urgent and not l.paused and l.pool = '' and l.lane <> all (p_not)
               and lane_free_slots(l.lane, coalesce(l.cap, p_cap), p_room, p_new_room) > 0
             order by l.virtual_time limit p_limit for no key update skip locked);
    end if;
    return array(
        select l.lane from lane l
         where l.busy and not l.paused and l.pool = '' and l.lane <> all (p_not)
           and lane_free_slots(l.lane, coalesce(l.cap, p_cap), p_room, p_new_room) > 0
         order by l.virtual_time limit p_limit for no key update skip locked);
end $$;

-- The next jobs of a lane, at most p_limit, in the order in which they start: by priority, and FIFO within it. Jobs of priority 2
-- (bulk) have a share of their own, so that a lane that is never without other work does them too: of p_bulk_slots that may
-- run at once, the first of a kind goes before the other jobs, unless the lane runs nothing yet. By kind, because one of them
-- may take hours: the images of a base do not wait until its chunks are built again.
create function lane_next_jobs(p_lane text, p_limit int, p_priority int, p_bulk_slots int)
returns table (job_row tid, cost double precision, rank bigint)
language plpgsql stable set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    v_running int;
    v_bulk int;
    v_kind text;    -- of the bulk job that waits longest
    v_same_kind int;
begin
    if p_priority = 2 then
        select j.kind into v_kind from job j
         where j.lane = p_lane and j.state = 'queued' and j.priority = 2 order by j.id limit 1;
    end if;
    if v_kind is null then
        return query
            select j.ctid, job_cost(j.workload), row_number() over (order by j.priority, j.id) from job j
             where j.lane = p_lane and j.state = 'queued' and j.priority <= p_priority
             order by j.priority, j.id limit p_limit;
        return;
    end if;
    select count(*), count(*) filter (where r.priority = 2), count(*) filter (where r.priority = 2 and r.kind = v_kind)
      into v_running, v_bulk, v_same_kind
      from job r where r.lane = p_lane and r.state = 'running';
    return query
        select q.job_row, job_cost(q.workload), row_number() over (order by q.place) from (
            (select j.ctid as job_row, j.workload, 2 * row_number() over (order by j.priority, j.id) as place from job j
              where j.lane = p_lane and j.state = 'queued' and j.priority < 2
              order by j.priority, j.id limit p_limit)
            union all
            (select j.ctid, j.workload,
                    case when v_same_kind > 0 or row_number() over (order by j.id) > 1 then 1000000 + row_number() over (order by j.id)
                         when v_running > 0 then 1 else 3 end
               from job j where j.lane = p_lane and j.state = 'queued' and j.priority = 2
              order by j.id limit greatest(0, p_bulk_slots - v_bulk))) q
         order by q.place limit p_limit;
end $$;

-- Starts up to p_limit jobs of lanes that the caller has locked, and charges the lanes for them. The snapshot is
-- newer than the locks, so that the running counts are exact and the caps hold across all workers. It picks the jobs
-- with the earliest virtual start: lanes share by weight and workload. Lanes without queued jobs leave the round-robin.
create function lane_start_jobs(p_lanes text[], p_worker uuid, p_limit int, p_cap int, p_room jsonb, p_new_room int,
                                p_priority int)
returns table (id uuid, kind text, lane text, priority smallint, payload jsonb, subject uuid, attempt smallint,
               max_attempts smallint, lease uuid, interrupted boolean)
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
    v_lease uuid := gen_random_uuid();
    v_bulk_slots int := 4;
    v_each int := case when cardinality(p_lanes) = 1 then p_limit else 1 + 2 * p_limit / cardinality(p_lanes) end;
    v_rows tid[];
    v_of text[];
    v_costs double precision[];
    v_dry text[];
begin
    with room as materialized (
        select l.lane, l.virtual_time, l.weight,
               lane_free_slots(l.lane, coalesce(l.cap, p_cap), p_room, p_new_room) as free
          from lane l where l.lane = any (p_lanes)),
    head as materialized (
        select r.lane, h.row, h.cost, r.virtual_time + h.before as start, h.row is null or h.last and not h.full as dry
          from room r
          left join lateral (
            select q.job_row as row, q.cost / r.weight as cost, (sum(q.cost) over w - q.cost) / r.weight as before,
                   row_number() over w = count(*) over () as last,
                   count(*) over () = least(r.free, v_each) as full
              from lane_next_jobs(r.lane, least(r.free, v_each), p_priority, v_bulk_slots) q
            window w as (order by q.rank)) h on true
         where r.free > 0),
    picked as (
        select h.row, h.lane, h.cost from head h where h.row is not null order by h.start limit p_limit)
    select array_agg(p.row), array_agg(p.lane), array_agg(p.cost),
           (select array_agg(h.lane) from head h where h.dry)
      into v_rows, v_of, v_costs, v_dry from picked p;
    if v_rows is not null then
        return query
        with locked as materialized (   -- a job that is being cancelled is skipped, not waited for
            select j.ctid as row, u.cost from unnest(v_rows, v_costs) u(row, cost)
              join job j on j.ctid = u.row and j.state = 'queued' for update of j skip locked),
        started as (
            update job j
               set state = 'running', attempt = j.attempt + 1, lease = v_lease, worker = p_worker, started_at = clock_now()
              from locked where j.ctid = locked.row
            returning j.id, j.kind, j.lane, j.priority, j.payload, j.subject, j.attempt, j.max_attempts, j.lease, locked.cost,
                      coalesce(j.errors -> -1 ->> 'code' in ('worker_lost', 'worker_stopped'), false) as interrupted),
        charged as (
            update lane l set virtual_time = l.virtual_time + s.cost
              from (select started.lane, sum(started.cost) as cost from started group by 1) s where l.lane = s.lane)
        select s.id, s.kind, s.lane, s.priority, s.payload, s.subject, s.attempt, s.max_attempts, s.lease, s.interrupted
          from started s;
    end if;
    if v_dry is not null then
        perform lane_sleep(v_dry);
    end if;
end $$;

-- Takes lanes without queued jobs out of the round-robin, unless an enqueue into them is under way.
create function lane_sleep(p_lanes text[]) returns void
language plpgsql set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    v_free text[] := array(
        select l.lane from lane l where l.lane = any (p_lanes) order by l.lane for update skip locked);
begin
    -- This snapshot is newer than the lock's: it sees what was enqueued before we got the lock.
    update lane l
       set busy = exists (select from job j where j.lane = l.lane and j.state = 'queued'),
           urgent = exists (select from job j where j.lane = l.lane and j.state = 'queued' and j.priority = 0)
     where l.lane = any (v_free);
end $$;

-- Claims up to p_limit jobs, at most p_general of them not interactive. The cost depends on p_limit and on how many
-- lanes are at their cap, never on how many jobs are queued.
create function job_claim(p_worker uuid, p_limit int, p_general int, p_cap int, p_global_cap int, p_room jsonb,
                          p_urgent_room jsonb, p_new_room int)
returns table (id uuid, kind text, lane text, priority smallint, payload jsonb, subject uuid, attempt smallint,
               max_attempts smallint, lease uuid, interrupted boolean)
language plpgsql as $$
#variable_conflict use_column
declare
    v_lanes text[];
    v_seen text[] := '{}';
    v_left int := p_limit;
    v_got int := 0;
begin
    if p_global_cap is not null then    -- an exact cap over all workers needs a lock
        perform pg_advisory_xact_lock(hashtext('gristmill.claim'));
        select least(v_left, p_global_cap - count(*)) into v_left
          from (select from job r where r.state = 'running' limit p_global_cap) r;
    end if;
    if v_left > 0 and exists (select from lane l where l.urgent and not l.paused and l.pool = '') then
        v_lanes := lane_lock_next(v_left, p_cap, p_urgent_room, p_new_room, true, '{}');
        if v_lanes <> '{}' then
            return query select * from lane_start_jobs(v_lanes, p_worker, v_left, p_cap, p_urgent_room,
                                                          p_new_room, 0);
            get diagnostics v_got = row_count;
        end if;
    end if;
    v_left := least(v_left - v_got, p_general);
    while v_left > 0 loop
        v_lanes := lane_lock_next(v_left, p_cap, p_room, p_new_room, false, v_seen);
        exit when v_lanes = '{}';
        return query select * from lane_start_jobs(v_lanes, p_worker, v_left, p_cap, p_room, p_new_room, 2);
        get diagnostics v_got = row_count;
        exit when v_got > 0;            -- else they had no jobs, and have left the round-robin: try the next
        v_seen := v_seen || v_lanes;    -- … or an enqueue into them is under way, and they have not
    end loop;
end $$;

-- Claims up to p_limit jobs of a pool, one per lane, for a worker that runs those of the lanes p_running. The organisation
-- with the fewest running jobs is next, and none runs more than p_share of them: the others find a free slot at once. The
-- cost grows with the number of waiting lanes of the pool, which its owner limits.
create function job_claim_pool(p_pool text, p_worker uuid, p_limit int, p_share int, p_running text[])
returns table (id uuid, kind text, lane text, priority smallint, payload jsonb, subject uuid, attempt smallint,
               max_attempts smallint, lease uuid, interrupted boolean)
language plpgsql set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
    v_lanes text[];
begin
    if not exists (select from lane l where l.busy and not l.paused and l.pool = p_pool) then
        return;
    end if;
    with running as materialized (
        select o.org_id, count(*) as jobs from lane_owner o where o.lane = any (p_running) group by 1),
    waiting as materialized (
        select l.lane, l.virtual_time, coalesce(r.jobs, 0)
               + row_number() over (partition by o.org_id order by l.virtual_time, l.lane) as place
          from lane l left join lane_owner o on o.lane = l.lane left join running r on r.org_id = o.org_id
         where l.busy and not l.paused and l.pool = p_pool and l.lane <> all (p_running)
           and lane_free_slots(l.lane, 1, '{}', 1) > 0)
    select array_agg(n.lane) into v_lanes
      from (select w.lane from waiting w where w.place <= p_share order by w.place, w.virtual_time limit p_limit) n;
    -- As in the general round-robin, a lane that another worker has locked is skipped.
    v_lanes := array(select l.lane from lane l where l.lane = any (v_lanes) order by l.lane for no key update skip locked);
    if v_lanes <> '{}' then
        return query select * from lane_start_jobs(v_lanes, p_worker, p_limit, 1, '{}', 1, 2);
    end if;
end $$;
