-- name: get
-- One run, with the schedule of its job, the run that this repeats, and what its trace is derived from; from the history
-- when it was moved there.
SELECT id, job, schedule, attempt, program, arguments, state, reason, created_at, started_at, ended_at, exit_code, runner,
    heartbeat_at, log_path, muted, start, metrics, driver, failure, executable ->> 'bundle' AS bundle, fence, spans,
    generation, rerun_of, commits, traced
FROM (
    SELECT r.*, j.schedule, j.generation, j.ready -> 'submission' -> 'rerun' ->> 'run' AS rerun_of,
        jsonb_build_object('traceparent', j.ready -> 'traceparent', 'satisfied_at', j.ready -> 'satisfied_at') AS traced
    FROM runs r LEFT JOIN jobs j ON j.id = r.job WHERE r.id = $1
    UNION ALL
    SELECT r.*, h.schedule, (j.record ->> 'generation')::bigint,
        j.record -> 'ready' -> 'submission' -> 'rerun' ->> 'run',
        jsonb_build_object(
            'traceparent', j.record -> 'ready' -> 'traceparent', 'satisfied_at', j.record -> 'ready' -> 'satisfied_at'
        )
    FROM runs_history h CROSS JOIN LATERAL jsonb_populate_record(NULL::runs, h.record) AS r
    LEFT JOIN LATERAL (SELECT record FROM jobs_history WHERE id = r.job LIMIT 1) AS j ON true
    WHERE h.id = $1
) AS known;

-- name: recent
-- The newest runs, of all programs ($1), apps or namespaces ($4) and states where none is named, the history included;
-- older than the one created at $5 with id $6. The history is not searched for states that only runs have that have not
-- ended.
SELECT id, job, schedule, attempt, program, arguments, state, reason, created_at, started_at, ended_at, exit_code, runner,
    heartbeat_at, log_path, muted, start, metrics, driver, failure, executable ->> 'bundle' AS bundle, fence, spans,
    NULL::bigint AS generation, NULL::text AS rerun_of, NULL::jsonb AS commits, NULL::jsonb AS traced
FROM (
    (SELECT r.*, j.schedule FROM runs r LEFT JOIN jobs j ON j.id = r.job
    WHERE ($1::text IS NULL OR r.program = $1) AND (cardinality($2::text[]) = 0 OR r.state = ANY($2::text[]))
        AND ($4::text IS NULL OR starts_with(r.program, $4 || '.'))
        AND (r.created_at, r.id) < ($5, $6)
    ORDER BY r.created_at DESC, r.id DESC
    LIMIT $3)
    UNION ALL
    SELECT r.*, h.schedule FROM (
        SELECT record, schedule FROM runs_history
        WHERE ($1::text IS NULL OR program = $1) AND (cardinality($2::text[]) = 0 OR state = ANY($2::text[]))
            AND ($4::text IS NULL OR starts_with(program, $4 || '.'))
            AND (created_at, id) < ($5, $6)
            AND NOT (cardinality($2::text[]) > 0 AND $2::text[] <@ ARRAY['PENDING', 'STARTING', 'RUNNING', 'SUSPENDED'])
        ORDER BY created_at DESC, id DESC
        LIMIT $3
    ) AS h, jsonb_populate_record(NULL::runs, h.record) AS r
) AS known
ORDER BY created_at DESC, id DESC
LIMIT $3;

-- name: lock_program
-- Waits for a decision about the program in progress.
SELECT definition FROM programs WHERE id = $1 FOR UPDATE;

-- name: ring
-- Notifies the launchers at commit: a run needs a runner process.
SELECT pg_notify('launcher', '');

-- name: active
-- The program's non-terminal runs, of schedules and manual.
SELECT count(*) FROM runs WHERE program = $1 AND state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED');

-- name: activity
-- Which of these programs ($1) have a run that has not ended, and whether one has begun.
SELECT given.program, EXISTS (
    SELECT FROM runs WHERE program = given.program AND state IN ('RUNNING', 'SUSPENDED')
) AS begun
FROM unnest($1::text[]) AS given (program)
WHERE EXISTS (
    SELECT FROM runs WHERE program = given.program AND state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
);

-- name: start
-- A manual run; idempotent by id.
INSERT INTO runs (id, attempt, program, executable, arguments, state, created_at, spawn_at, pool)
VALUES ($1, 1, $2, $3::jsonb, $4::jsonb, $5, $6, timestamptz 'epoch', $7)
ON CONFLICT (id) DO NOTHING
RETURNING id;

-- name: schedules
-- The schedules that start the program.
SELECT definition FROM schedules WHERE program = $1 AND deleted_at IS NULL;

-- name: request_stop
-- The runner sees it at its next heartbeat.
UPDATE runs SET stop_requested = $2, stop_at_once = $3 WHERE id = $1 AND state IN ('STARTING', 'RUNNING', 'SUSPENDED') RETURNING id;

-- name: state
-- The state of a run, its job and schedule, and the content of its status event.
SELECT r.id, r.state, r.job, r.attempt, r.program, r.executable, r.arguments, r.runner, r.heartbeat_at,
    r.stop_requested, r.muted, r.driver, r.taken_over, j.schedule,
    j.generation, j.state AS job_state, j.ready::text AS ready, j.ancestors, j.created_at AS job_created_at
FROM runs r LEFT JOIN jobs j ON j.id = r.job WHERE r.id = $1;

-- name: committed
-- What these runs have committed: dataset and partitions of each event.
SELECT said.value ->> 'dataset' AS dataset, coalesce((said.value ->> 'partitions')::bigint, 0) AS partitions
FROM runs r CROSS JOIN LATERAL jsonb_each(coalesce(r.commits, '{}')) AS said
WHERE r.id = ANY ($1::text[]);

-- name: job_state
-- The job's state after the wait for its schedule's lock.
SELECT state FROM jobs WHERE id = $1;

-- name: lock_run
-- Waits for the run's lock.
SELECT FROM runs WHERE id = $1 FOR UPDATE;

-- name: lock_schedule
-- The current definition: a concurrent disabling waits, or is seen here.
SELECT definition, generation, oldest_valid_generation, admits, deleted_at FROM schedules WHERE id = $1 FOR SHARE;

-- name: hold_back
-- Its schedule is paused: no runner process is started until the schedule changes.
UPDATE runs SET spawn_at = timestamptz 'infinity' WHERE id = $1 AND state = 'PENDING';

-- name: claim
-- One runner gets it.
UPDATE runs SET state = $3, runner = $4, log_path = $5, heartbeat_at = $6::timestamptz, spawn_at = NULL,
    deadline_at = $7::timestamptz
WHERE id = $1 AND state = $2;

-- name: release_runner
-- A detached run whose runner is gone; a runner that is started for it claims it.
UPDATE runs SET runner = $3, heartbeat_at = $4::timestamptz
WHERE id = $1 AND heartbeat_at = $2 AND state IN ('STARTING', 'RUNNING', 'SUSPENDED')
RETURNING id;

-- name: take_over
-- An unattended run goes on under another runner.
UPDATE runs SET runner = $2, log_path = $3, heartbeat_at = $4::timestamptz, taken_over = true WHERE id = $1;

-- name: submitted
-- The driver that the cluster has for the run.
UPDATE runs SET driver = $2::jsonb WHERE id = $1;

-- name: job_moves
-- A transition of the run's job.
UPDATE jobs SET state = $3, reason = $4, ended_at = $5::timestamptz WHERE id = $1 AND state = $2 RETURNING id;

-- name: run_moves
-- A transition of a live run by its runner.
UPDATE runs SET state = $4, started_at = coalesce(started_at, $5::timestamptz), heartbeat_at = $5::timestamptz,
    start = nullif($6, '')
WHERE id = $1 AND runner = $2 AND state = $3
RETURNING program;

-- name: beat
-- A heartbeat, with metrics when they have changed. No row: marked lost, or ended.
UPDATE runs SET heartbeat_at = $3::timestamptz, metrics = coalesce($4::jsonb, metrics)
WHERE id = $1 AND runner = $2 AND state IN ('STARTING', 'RUNNING', 'SUSPENDED')
RETURNING stop_requested, stop_at_once;

-- name: measure
-- The metrics at the end of a run.
UPDATE runs SET metrics = $2::jsonb WHERE id = $1;

-- name: end_run
-- The end, once.
UPDATE runs SET state = $3, reason = $4, ended_at = $5::timestamptz, exit_code = $6, failure = $7, spawn_at = NULL
WHERE id = $1 AND state = $2;

-- name: announce
-- The status event of the stored state.
INSERT INTO outbox (topic, key, value) VALUES ('program-status', $1, $2);

-- name: wake
-- Runs of these programs ended: wakes those jobs of each that this may admit and that wait longest, a bounded number. The
-- next ones follow when one of these has run, or by the sweep. Under the programs' locks, so no decision is concurrent.
WITH woken AS (
    UPDATE jobs SET next_check_at = timestamptz 'epoch'
    WHERE id IN (
        SELECT first.id FROM unnest($1::text[]) AS ended (program) CROSS JOIN LATERAL (
            SELECT id FROM jobs j
            WHERE coalesce(j.program, '') = ended.program AND state = 'PENDING_CONSTRAINT'
                AND next_check_at IS DISTINCT FROM timestamptz 'epoch' AND spared_at IS DISTINCT FROM checked_at
            ORDER BY satisfied_at, sequence
            LIMIT 100
        ) AS first
    )
    RETURNING id
)
SELECT pg_notify('launcher', '') FROM woken LIMIT 1;

-- name: claim_inline
-- PENDING runs that launchers execute inline; $5, the launcher that takes them.
UPDATE runs SET spawns = spawns + 1, runner = $5,
    spawn_at = ($2::timestamptz[])[spawns + 1] + (($2::timestamptz[])[spawns + 1] - $1) * ($4::float8 * random())
WHERE id IN (
    SELECT id FROM runs
    WHERE state = 'PENDING' AND executable ->> 'type' IN ('http', 'publish', 'enqueue')
        AND spawn_at <= $1 AND spawns < cardinality($2::timestamptz[])
    ORDER BY spawn_at, created_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
)
RETURNING id AS run, spawns;

-- name: bucket
-- The tokens left of a pace, locked until the transaction ends; full on first use.
INSERT INTO buckets AS b (name, remaining, at) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET remaining = b.remaining
RETURNING remaining, at;

-- name: draw
-- Stores the remaining tokens.
UPDATE buckets SET remaining = $2, at = $3 WHERE name = $1;

-- name: any_wait
-- Whether runs are PENDING, and whether jobs wait for room for their processes.
SELECT EXISTS (SELECT FROM runs WHERE state = 'PENDING') AS runs, EXISTS (SELECT FROM room_waits) AS jobs;

-- name: next_spawns
-- When the next PENDING run needs a runner process or has failed to launch, without those held back; and the same of runs
-- that launchers execute inline.
SELECT (
    SELECT min(spawn_at) FROM runs
    WHERE state = 'PENDING' AND executable ->> 'type' NOT IN ('http', 'publish', 'enqueue') AND spawn_at < 'infinity'
) AS process, (
    SELECT min(spawn_at) FROM runs
    WHERE state = 'PENDING' AND executable ->> 'type' IN ('http', 'publish', 'enqueue') AND spawn_at < 'infinity'
) AS inline;

-- name: unclaimed_too_often
-- PENDING runs that none of their runner processes claimed.
SELECT id, executable ->> 'type' IN ('http', 'publish', 'enqueue') AS inline FROM runs
WHERE state = 'PENDING' AND spawn_at <= $1 AND spawns >= $2 ORDER BY spawn_at LIMIT 100;

-- name: overdue
-- Requests a stop of live runs past their deadline without one.
WITH stopped AS (
    UPDATE runs SET stop_requested = $2
    WHERE id IN (
        SELECT id FROM runs
        WHERE deadline_at <= $1::timestamptz AND stop_requested IS NULL AND state IN ('STARTING', 'RUNNING', 'SUSPENDED')
        ORDER BY deadline_at
        LIMIT 100
        FOR UPDATE SKIP LOCKED
    )
    RETURNING id, stop_requested
), recorded AS (
    INSERT INTO decisions (at, subject_kind, subject, action, reason)
    SELECT $1::timestamptz, 'run', id, 'run.stop_requested', stop_requested FROM stopped
)
SELECT id FROM stopped;

-- name: stop_requested
-- PENDING runs with a requested stop.
SELECT id FROM runs WHERE state = 'PENDING' AND stop_requested IS NOT NULL ORDER BY id LIMIT 100;

-- name: silent
-- Claimed runs without a recent heartbeat, longest silent first; one page.
SELECT id AS run, attempt, runner, heartbeat_at, coalesce(executable ->> 'deploy_mode', '') = 'cluster' AS detached
FROM runs
WHERE state IN ('STARTING', 'RUNNING', 'SUSPENDED') AND heartbeat_at < $1 AND (heartbeat_at, id) > ($3, $4)
ORDER BY heartbeat_at, id
LIMIT $2;

-- name: next_attempt
-- The next attempt of a failed run's job, with the same program and arguments, to be started then.
INSERT INTO runs (id, job, attempt, program, executable, arguments, state, created_at, spawn_at, muted, pool, turn_at)
SELECT $2, job, attempt + 1, program, executable, arguments, $3, $4::timestamptz, $5::timestamptz, muted, pool, turn_at
FROM runs WHERE id = $1;
