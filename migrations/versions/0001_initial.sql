-- The truth of schedules, jobs, runs, timers and history. Accumulation lives in the log's tables, not here.
-- Times are timestamptz, written by the application's clock unless a default says otherwise.

CREATE TABLE namespaces (
    name text PRIMARY KEY,
    created_at timestamptz NOT NULL
);

CREATE TABLE apps (
    id text PRIMARY KEY,                       -- namespace.app
    namespace text NOT NULL REFERENCES namespaces (name),
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);

CREATE TABLE programs (
    id text PRIMARY KEY,                       -- namespace.app.program
    app text NOT NULL REFERENCES apps (id),
    definition jsonb NOT NULL,                 -- codec.schedule: Program
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);
CREATE INDEX programs_by_app ON programs (app);

CREATE TABLE schedules (
    id text PRIMARY KEY,                       -- namespace.app.schedule
    app text NOT NULL REFERENCES apps (id),
    program text NOT NULL,                     -- no foreign key: a tombstone may outlive its program
    definition jsonb NOT NULL,                 -- codec.schedule: Schedule
    generation bigint NOT NULL CHECK (generation > 0),  -- every change bumps it; a tombstone keeps it: never reused
    enabled boolean NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz,
    CHECK (deleted_at IS NULL OR NOT enabled)
);
CREATE INDEX schedules_by_app ON schedules (app, id);
CREATE INDEX schedules_by_program ON schedules (program) WHERE deleted_at IS NULL;

-- Rings a bell of that name when the transaction commits. Wake-ups only: whoever listens also looks by himself now and then.
CREATE FUNCTION ring_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(TG_ARGV[0], '');
    RETURN NULL;
END
$$;

-- Records to append to the log, written in the transaction of the change they tell of. The relay appends what it sees,
-- oldest id first, and deletes it; the ids it appended last travel in the log beside the records (ADR 0002), because
-- ids of concurrent transactions do not become visible in their order. A row that is gone has been acknowledged.
CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic text NOT NULL,
    key text NOT NULL,                         -- its home decides the partition
    value bytea,
    created_at timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);  -- a queue: small, and always dying
CREATE TRIGGER outbox_written AFTER INSERT ON outbox FOR EACH STATEMENT EXECUTE FUNCTION ring_v1('outbox');

-- The next tick of each time leaf of each enabled schedule.
CREATE TABLE timers (
    schedule text NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    leaf text NOT NULL,                        -- domain.trigger.leaf_id
    generation bigint NOT NULL,
    due_at timestamptz NOT NULL,
    PRIMARY KEY (schedule, leaf)
);
CREATE INDEX timers_due ON timers (due_at);

-- Who owns which shard (or role such as the relay). Fencing in the log makes a wrong lease harmless.
CREATE TABLE leases (
    name text PRIMARY KEY,
    owner text NOT NULL,
    epoch bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    wanted_by text                             -- graceful handover: who should get it next
);

CREATE TABLE workers (
    id text PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    seen_at timestamptz NOT NULL
);

-- How far an intake has read a partition of the log, stored in the transaction that stores what it read.
CREATE TABLE intake_positions (
    topic text NOT NULL,
    partition integer NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (topic, partition)
);

-- A satisfied schedule, waiting or launched. The id is a function of its three parts, so a repeat finds the first.
-- Waiting jobs change under their program's row lock alone; ready ones (their run is PENDING) when a runner claims the run.
CREATE TABLE jobs (
    id text PRIMARY KEY CHECK (id = schedule || '.' || generation || '.' || sequence),
    schedule text NOT NULL,
    generation bigint NOT NULL,
    sequence bigint NOT NULL,
    program text,                              -- NULL: the schedule was unknown when the job came in
    state text NOT NULL CHECK (state IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH', 'LAUNCHED', 'ABORTED', 'TIMED_OUT',
        'OBSOLETE', 'COALESCED', 'LAUNCH_FAILED')),
    reason text NOT NULL DEFAULT '',           -- why it is in this state, for people
    satisfied_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    next_check_at timestamptz,                 -- when the launcher looks again ('epoch': at once); NULL: when woken
    waiting jsonb,                             -- the verdicts of the last check; NULL: never had to wait
    checked_at timestamptz,                    -- when that was
    ready jsonb NOT NULL,                      -- codec.launch: ReadyJob; those who joined are merged in at admission
    joined text REFERENCES jobs (id),          -- COALESCED: the job it joined
    ended_at timestamptz,
    CHECK ((ended_at IS NOT NULL) = (state NOT IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH'))),
    CHECK ((joined IS NOT NULL) = (state = 'COALESCED')),
    CHECK (program IS NOT NULL OR state = 'OBSOLETE'),
    CHECK (next_check_at IS NULL OR state = 'PENDING_CONSTRAINT')
);
CREATE INDEX jobs_due ON jobs (next_check_at, program) WHERE state = 'PENDING_CONSTRAINT';
CREATE INDEX jobs_waiting_by_program ON jobs (program, satisfied_at, sequence, next_check_at)
    WHERE state = 'PENDING_CONSTRAINT';
CREATE INDEX jobs_waiting_by_schedule ON jobs (schedule) WHERE state IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH');
CREATE INDEX jobs_joined ON jobs (joined) WHERE joined IS NOT NULL;
CREATE INDEX jobs_recent ON jobs (created_at DESC, id DESC);
CREATE INDEX jobs_of_schedule ON jobs (schedule, created_at DESC, id DESC);

CREATE TABLE runs (
    id text PRIMARY KEY,                       -- job.r<attempt>; by hand: program.manual-<token>.r1
    job text REFERENCES jobs (id),             -- NULL: started by hand
    attempt integer NOT NULL CHECK (attempt > 0),
    program text NOT NULL,
    executable jsonb NOT NULL,                 -- codec.schedule: the Program as it was when the run was made
    arguments jsonb NOT NULL,
    state text NOT NULL CHECK (state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED', 'COMPLETED', 'FAILED', 'KILLED',
        'LOST')),
    reason text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    ended_at timestamptz,
    exit_code integer,
    spawns integer NOT NULL DEFAULT 0,         -- runner processes started for it so far
    spawn_at timestamptz,                      -- PENDING: when the next one is started ('epoch': at once)
    runner text,                               -- host:pid:start-ticks of the process that executes it
    heartbeat_at timestamptz,
    stop_requested text,                       -- who wants it killed and why; its runner obeys at the next heartbeat
    log_path text,
    CHECK ((ended_at IS NOT NULL) = (state IN ('COMPLETED', 'FAILED', 'KILLED', 'LOST'))),
    CHECK ((spawn_at IS NOT NULL) = (state = 'PENDING')),
    CHECK (runner IS NOT NULL OR state NOT IN ('STARTING', 'RUNNING', 'SUSPENDED', 'COMPLETED', 'LOST')),
    UNIQUE (job, attempt)
);
-- One job, one live or successful run: whatever races, the database refuses a second.
CREATE UNIQUE INDEX runs_one_per_job ON runs (job) WHERE state NOT IN ('FAILED', 'KILLED', 'LOST');
CREATE INDEX runs_active_by_program ON runs (program, created_at)
    WHERE state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED');
CREATE INDEX runs_to_spawn ON runs (spawn_at) WHERE state = 'PENDING';
CREATE INDEX runs_beating ON runs (heartbeat_at) WHERE state IN ('STARTING', 'RUNNING', 'SUSPENDED');
CREATE INDEX runs_completed_by_program ON runs (program, ended_at DESC) WHERE state = 'COMPLETED';
CREATE INDEX runs_recent ON runs (created_at DESC, id DESC);

-- History: every decision about a schedule, job or run, with its reason.
CREATE TABLE decisions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    subject_kind text NOT NULL CHECK (subject_kind IN ('app', 'program', 'schedule', 'job', 'run')),
    subject text NOT NULL,
    action text NOT NULL,
    reason text NOT NULL DEFAULT '',
    detail jsonb
);
CREATE INDEX decisions_of_subject ON decisions (subject, id);

-- Read model of the accumulations, copied from the triggers changelog ("3 of 4").
CREATE TABLE trigger_progress (
    schedule text PRIMARY KEY,
    generation bigint NOT NULL,
    sequence bigint NOT NULL,
    progress jsonb NOT NULL,                   -- domain.explain tree
    updated_at timestamptz NOT NULL
);
