-- Queues, lanes and tasks. Why a lane is a row: ADR 80. Why 16 partitions: ADR 81.

CREATE SEQUENCE task_generations;              -- of registrations and of queues' definitions; never reused

CREATE TABLE task_queues (
    name text PRIMARY KEY CONSTRAINT task_queues_name CHECK (length(name) BETWEEN 1 AND 255),
    policy jsonb NOT NULL,
    dedupe interval NOT NULL,                  -- of the policy: so long ended tasks are kept at least
    paused boolean NOT NULL DEFAULT false,
    version bigint NOT NULL DEFAULT nextval('task_generations'),
    tokens double precision,                   -- level of the rate's bucket; NULL: full
    tokens_at timestamptz,
    changed_at timestamptz NOT NULL,
    CONSTRAINT task_queues_tokens CHECK ((tokens IS NULL) = (tokens_at IS NULL))
);

-- The epoch of the lease under which a partition's lanes may be started and freed.
CREATE TABLE task_partitions (
    partition integer PRIMARY KEY CONSTRAINT task_partitions_number CHECK (partition BETWEEN 0 AND 15),
    epoch bigint NOT NULL
);
INSERT INTO task_partitions (partition, epoch) SELECT n, 0 FROM generate_series(0, 15) AS n;

-- The processes that deliver tasks, with their heartbeats.
CREATE TABLE task_owners (
    id text PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    seen_at timestamptz NOT NULL
);

-- The lanes that have tasks. The row is the lane's lock: registrations, owners and people take it before its tasks. It
-- has room for one task in flight, so a second one cannot be.
CREATE TABLE task_lanes (
    id text PRIMARY KEY,                       -- a hash of queue and name
    partition integer NOT NULL CONSTRAINT task_lanes_partition CHECK (partition BETWEEN 0 AND 15),
    queue text NOT NULL,
    name text NOT NULL,
    ready_at timestamptz,                      -- when to check its head: not after the head may start; NULL: in flight
    in_flight text,                            -- the task
    generation bigint,                         -- of the registration that is in flight
    started_at timestamptz,
    CONSTRAINT task_lanes_in_flight CHECK (
        (in_flight IS NULL) = (ready_at IS NOT NULL) AND (in_flight IS NULL) = (generation IS NULL)
        AND (in_flight IS NULL) = (started_at IS NULL)
    )
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX task_lanes_ready ON task_lanes (queue, partition, ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX task_lanes_started ON task_lanes (queue, partition) WHERE in_flight IS NOT NULL;

-- The tasks that have not ended.
CREATE TABLE tasks (
    id text PRIMARY KEY,                       -- a hash of its identity
    lane_id text NOT NULL,
    queue text NOT NULL,
    lane text NOT NULL,
    key text NOT NULL,
    state text NOT NULL CONSTRAINT tasks_state CHECK (state IN ('WAITING', 'RETRYING')),
    due_at timestamptz NOT NULL,
    planned_at timestamptz NOT NULL,           -- planned time of this tick; of a task delivered once, the first due time
    next_at timestamptz NOT NULL,              -- earliest start of the next attempt
    generation bigint NOT NULL,                -- of its newest registration
    fired integer NOT NULL DEFAULT 0,          -- ticks that are done
    failures integer NOT NULL DEFAULT 0,       -- failed attempts of this tick
    interruptions integer NOT NULL DEFAULT 0,
    options jsonb,                             -- recurrence and own retry policy
    data bytea NOT NULL,
    content_type text NOT NULL,
    created_at timestamptz NOT NULL,
    error text NOT NULL DEFAULT '',            -- of the last attempt
    attempts jsonb NOT NULL DEFAULT '[]',      -- the latest 20 attempts of this tick, oldest first
    CONSTRAINT tasks_never_early CHECK (next_at >= due_at),
    CONSTRAINT tasks_counts CHECK (fired >= 0 AND failures >= 0 AND interruptions >= 0)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- A lane in order: a started task first, then by due time and key.
CREATE INDEX tasks_in_order ON tasks (lane_id, (state = 'WAITING'), due_at, key);
CREATE UNIQUE INDEX tasks_one_started ON tasks (lane_id) WHERE state = 'RETRYING';
CREATE INDEX tasks_by_queue ON tasks (queue, due_at, id);

-- Ended tasks, and the ended ticks of recurring ones, by day.
CREATE TABLE tasks_history (
    at timestamptz NOT NULL,
    id text NOT NULL,
    queue text NOT NULL,
    lane text NOT NULL,
    key text NOT NULL,
    state text NOT NULL CONSTRAINT tasks_history_state CHECK (
        state IN ('SUCCEEDED', 'FAILED', 'EXPIRED', 'CANCELLED', 'DROPPED')
    ),
    final boolean NOT NULL,                    -- false: a tick, and the task goes on
    due_at timestamptz NOT NULL,
    record jsonb NOT NULL                      -- the row as it was, without the data
) PARTITION BY RANGE (at);
CREATE INDEX tasks_history_by_id ON tasks_history (id, at);
CREATE INDEX tasks_history_recent ON tasks_history (queue, at DESC, id DESC);
CREATE TABLE tasks_history_rest PARTITION OF tasks_history DEFAULT;

-- What people do with queues and tasks is in the history of changes.
ALTER TABLE decisions DROP CONSTRAINT decisions_subject_kind_check;
ALTER TABLE decisions ADD CONSTRAINT decisions_subject_kind_check
    CHECK (subject_kind IN ('app', 'program', 'schedule', 'job', 'run', 'group', 'namespace', 'queue', 'task')) NOT VALID;
