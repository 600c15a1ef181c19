-- The job engine. It knows nothing about documents: a job is a kind, a payload and a lane.

create type job_state as enum ('queued', 'delayed', 'running', 'dead');

-- owner: jobs
--        enqueue            claim             complete
--     ()  ─────→  queued  ─────────→  running  ───────→  history: done
--                  ↑   ↑                │ │ │
--         promote  │   └─ requeue ──────┘ │ └─ cancel ─→  history: cancelled, from queued and delayed too
--               delayed ←─ requeue later ─┤
--                                         └─ bury ─→  dead  ── retry ─→  queued
--                                                       └──── dismiss ─→  history: dismissed
create table job (
    id              uuid primary key default uuidv7(),      -- also the order within a lane and priority
    kind            text not null,
    lane            text collate "C" not null,              -- fairness and caps count by lane
    priority        smallint not null default 1,            -- 0 interactive, 1 normal, 2 bulk
    state           job_state not null default 'queued',
    workload        real not null default 0,                -- estimated cost, in bytes of input
    key             text collate "C",                       -- unique among living jobs
    subject         uuid,                                   -- what the job is about; cancelling goes by it
    payload         jsonb not null default '{}',
    attempt         smallint not null default 0,            -- counted at the claim
    max_attempts    smallint not null default 5,
    run_at          timestamptz not null default clock_now(),
    lease           uuid,                                   -- new at every claim; every write of a result proves it
    worker          uuid,
    cancelling      boolean not null default false,
    errors          jsonb not null default '[]',            -- one entry per failed attempt, oldest first
    result          jsonb,                                  -- what the job reports, as far as it is done
    created_at      timestamptz not null default clock_now(),
    started_at      timestamptz
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0);
create index job_queued on job (lane, priority, id) where state = 'queued';
create index job_running on job (lane) where state = 'running';
create index job_delayed on job (run_at) where state = 'delayed';
create index job_delayed_lane on job (lane, id) where state = 'delayed';    -- delayed jobs count for the limits of the queue
create index job_dead on job (lane, id) where state = 'dead';
create index job_dead_key on job (key) where state = 'dead';
create unique index job_key on job (key) where key is not null and state <> 'dead';
create index job_subject on job (subject) where subject is not null;

-- owner: jobs
-- How many jobs there are by lane, kind and state: the sum of the rows. A statement that changes jobs appends the differences,
-- so that no two wait for one row; workers fold them once a second (functions/4_job_counts.sql).
create table job_count (
    lane            text collate "C" not null,
    kind            text not null,
    state           job_state not null,
    count           int not null,
    folded          boolean not null default false          -- the sum of earlier rows
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
create unique index job_count_folded on job_count (lane, kind, state) where folded;

-- owner: jobs
-- Finished jobs, kept for timelines and rates, swept after a retention.
create table job_history (
    id              uuid primary key,
    kind            text not null,
    lane            text collate "C" not null,
    subject         uuid,
    outcome         text not null check (outcome in ('done', 'cancelled', 'dismissed')),
    priority        smallint not null,
    attempt         smallint not null,
    max_attempts    smallint not null,
    errors          jsonb not null,
    result          jsonb,
    created_at      timestamptz not null,
    started_at      timestamptz,
    finished_at     timestamptz not null
);
-- Rows are appended in the order they finish, so a block range index is nearly free.
create index job_history_finished on job_history using brin (finished_at) with (pages_per_range = 16, autosummarize = on);
create index job_history_subject on job_history (subject, finished_at) where subject is not null;

-- owner: jobs
-- One row per worker process; it owns its jobs until lease_until. A living worker holds an advisory lock, which
-- PostgreSQL frees when its connection ends: a killed worker is detected within seconds, before its lease expires.
create table worker (
    id              uuid primary key,
    info            jsonb not null default '{}',
    lock_key        int,                                    -- null: it holds no lock, and only its lease counts
    started_at      timestamptz not null default clock_now(),
    heartbeat_at    timestamptz not null default clock_now(),
    lease_until     timestamptz not null
);

-- owner: jobs
-- Fair queueing: `virtual_time` is the work that a lane was given, divided by its weight, and the lane with the least is
-- next. `busy` may be true with nothing queued, but never false with something queued: whoever enqueues locks the row
-- FOR KEY SHARE, and only a transaction that gets it FOR UPDATE (so that no enqueue is under way) may clear the flag.
create table lane (
    lane            text collate "C" primary key,
    weight          real not null default 1 check (weight > 0),
    cap             int check (cap >= 0),                   -- null: the claimer's default
    paused          boolean not null default false,
    pool            text collate "C" not null default '',   -- named: its jobs run in slots apart, with a share per organisation
    virtual_time    double precision not null default 0,
    busy            boolean not null default false,         -- may have queued jobs
    urgent          boolean not null default false          -- may have queued jobs of priority 0
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
create index lane_busy on lane (pool, virtual_time) where busy and not paused;
create index lane_urgent on lane (pool, virtual_time) where urgent and not paused;

-- owner: jobs
-- The organisation of a lane: a base's lane is its id, a webhook's webhook:{id}, a connector's connector:{id}. The row
-- outlives what the lane belongs to, because jobs and events about it do too.
create table lane_owner (
    lane            text primary key,
    org_id          uuid not null references organisation
);
create index lane_owner_org on lane_owner (org_id);
insert into lane_owner (lane, org_id) values ('reconcile', '00000000-0000-7000-8000-000000000001'),
    ('refresh', '00000000-0000-7000-8000-000000000001');

-- owner: jobs
-- A job to enqueue at the times of a cron expression.
create table schedule (
    name            text primary key,
    cron            text not null,
    next_at         timestamptz not null,
    last_at         timestamptz,
    kind            text not null,
    lane            text collate "C" not null,
    priority        smallint not null,
    max_attempts    smallint not null,
    key             text collate "C",
    subject         uuid,
    payload         jsonb not null
);
create index schedule_due on schedule (next_at);
