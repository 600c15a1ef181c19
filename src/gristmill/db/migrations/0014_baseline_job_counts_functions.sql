-- Part of the schema of the first release. Frozen: read schema/ and functions/ instead.
create function job_count_inserted() returns trigger language plpgsql as $$
begin
    insert into job_count (lane, kind, state, count)
    select j.lane, j.kind, j.state, count(*) from new_jobs j group by 1, 2, 3;
    return null;
end $$;
create trigger job_count_inserted after insert on job
    referencing new table as new_jobs for each statement execute function job_count_inserted();
create function job_count_deleted() returns trigger language plpgsql as $$
begin
    insert into job_count (lane, kind, state, count)
    select j.lane, j.kind, j.state, -count(*) from old_jobs j group by 1, 2, 3;
    return null;
end $$;
create trigger job_count_deleted after delete on job
    referencing old table as old_jobs for each statement execute function job_count_deleted();
create function job_count_updated() returns trigger language plpgsql as $$
begin
    insert into job_count (lane, kind, state, count)
    select c.lane, c.kind, c.state, sum(c.count)
      from (select n.lane, n.kind, n.state, 1 as count from new_jobs n
             union all
            select o.lane, o.kind, o.state, -1 from old_jobs o) c
     group by 1, 2, 3 having sum(c.count) <> 0;
    return null;
end $$;
create trigger job_count_updated after update on job
    referencing old table as old_jobs new table as new_jobs for each statement execute function job_count_updated();
create function job_count_truncated() returns trigger language plpgsql as $$
begin
    truncate job_count;
    return null;
end $$;
create trigger job_count_truncated after truncate on job for each statement execute function job_count_truncated();
create function job_count_fold() returns void language plpgsql set enable_seqscan = on as $$
begin
    with appended as (
        delete from job_count c where not c.folded returning c.lane, c.kind, c.state, c.count)
    insert into job_count as c (lane, kind, state, count, folded)
    select a.lane, a.kind, a.state, sum(a.count), true from appended a
     group by 1, 2, 3 having sum(a.count) <> 0 order by 1, 2, 3
    on conflict (lane, kind, state) where folded do update set count = c.count + excluded.count;
    delete from job_count c where c.folded and c.count = 0;
end $$;
create function job_count_errors() returns table (lane text, kind text, state job_state, missing int)
    language sql stable as $$
    select lane, kind, state, sum(count)::int from (
        select j.lane, j.kind, j.state, count(*) as count from job j group by 1, 2, 3
         union all
        select c.lane, c.kind, c.state, -sum(c.count) from job_count c group by 1, 2, 3) d
     group by 1, 2, 3 having sum(count) <> 0
$$;
create function lane_oldest_waiting_at(p_lane text) returns timestamptz language sql stable as $$
    select min(w.created_at) from (
        select (select j.created_at from job j where j.state = 'queued' and j.lane = p_lane and j.priority = p.priority
                 order by j.id limit 1) as created_at
          from generate_series(0, 2) p(priority)
         union all
        (select j.created_at from job j where j.state = 'delayed' and j.lane = p_lane order by j.id limit 1)) w
$$;
