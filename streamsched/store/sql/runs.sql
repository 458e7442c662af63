-- name: get
-- One run, with the schedule of its job; of the history when it has left.
SELECT r.*, j.schedule FROM runs r LEFT JOIN jobs j ON j.id = r.job WHERE r.id = $1
UNION ALL
SELECT r.*, h.schedule FROM runs_history h, jsonb_populate_record(NULL::runs, h.record) AS r WHERE h.id = $1;

-- name: recent
-- The newest runs, of all programs and states where none is named; with those that have left for the history.
SELECT * FROM (
    (SELECT r.*, j.schedule FROM runs r LEFT JOIN jobs j ON j.id = r.job
    WHERE ($1::text IS NULL OR r.program = $1) AND (cardinality($2::text[]) = 0 OR r.state = ANY($2::text[]))
    ORDER BY r.created_at DESC, r.id DESC
    LIMIT $3)
    UNION ALL
    SELECT r.*, h.schedule FROM (
        SELECT record, schedule FROM runs_history
        WHERE ($1::text IS NULL OR program = $1) AND (cardinality($2::text[]) = 0 OR state = ANY($2::text[]))
        ORDER BY created_at DESC, id DESC
        LIMIT $3
    ) AS h, jsonb_populate_record(NULL::runs, h.record) AS r
) AS known
ORDER BY created_at DESC, id DESC
LIMIT $3;

-- name: lock_program
-- Waits for whoever decides about the program.
SELECT definition FROM programs WHERE id = $1 FOR UPDATE;

-- name: ring
-- Wakes the launchers when this commits: a run wants a runner process.
SELECT pg_notify('launcher', '');

-- name: active
-- The program's non-terminal runs, whoever started them.
SELECT count(*) FROM runs WHERE program = $1 AND state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED');

-- name: start
-- A run by hand; a repeat finds the first.
INSERT INTO runs (id, attempt, program, executable, arguments, state, created_at, spawn_at)
VALUES ($1, 1, $2, $3::jsonb, $4::jsonb, $5, $6, timestamptz 'epoch')
ON CONFLICT (id) DO NOTHING
RETURNING id;

-- name: schedules
-- What starts the program otherwise.
SELECT definition FROM schedules WHERE program = $1 AND deleted_at IS NULL;

-- name: request_stop
-- Its runner obeys at its next heartbeat.
UPDATE runs SET stop_requested = $2, stop_at_once = $3 WHERE id = $1 AND state IN ('STARTING', 'RUNNING', 'SUSPENDED') RETURNING id;

-- name: state
-- Where a run is, where it belongs, and what its end would tell.
SELECT r.id, r.state, r.job, r.attempt, r.program, r.executable, r.arguments, r.runner, r.heartbeat_at,
    r.stop_requested, j.schedule,
    j.generation, j.state AS job_state, j.ready::text AS ready
FROM runs r LEFT JOIN jobs j ON j.id = r.job WHERE r.id = $1;

-- name: job_state
-- As it is after the wait for its schedule's lock; `state` was read before.
SELECT state FROM jobs WHERE id = $1;

-- name: lock_run
-- The run's state as it is after the wait for its lock.
SELECT state, runner, heartbeat_at FROM runs WHERE id = $1 FOR UPDATE;

-- name: lock_schedule
-- The definition that stands: disabling waits for us, or we see it done.
SELECT definition, generation, stands_from, enabled, deleted_at FROM schedules WHERE id = $1 FOR SHARE;

-- name: hold_back
-- Its schedule is paused: no runner process is started for it until the schedule is changed again.
UPDATE runs SET spawn_at = timestamptz 'infinity' WHERE id = $1 AND state = 'PENDING';

-- name: claim
-- One runner gets it.
UPDATE runs SET state = $3, runner = $4, log_path = $5, heartbeat_at = $6::timestamptz, spawn_at = NULL,
    deadline_at = $7::timestamptz
WHERE id = $1 AND state = $2
RETURNING id;

-- name: job_moves
-- The job follows its run.
UPDATE jobs SET state = $3, reason = $4, ended_at = $5::timestamptz WHERE id = $1 AND state = $2 RETURNING id;

-- name: run_moves
-- A step of a live run that its runner takes.
UPDATE runs SET state = $4, started_at = coalesce(started_at, $5::timestamptz), heartbeat_at = $5::timestamptz
WHERE id = $1 AND runner = $2 AND state = $3
RETURNING program;

-- name: beat
-- Alive. No row: given up as lost, or ended.
UPDATE runs SET heartbeat_at = $3::timestamptz
WHERE id = $1 AND runner = $2 AND state IN ('STARTING', 'RUNNING', 'SUSPENDED')
RETURNING stop_requested, stop_at_once;

-- name: end_run
-- The end, once.
UPDATE runs SET state = $3, reason = $4, ended_at = $5::timestamptz, exit_code = $6, spawn_at = NULL
WHERE id = $1 AND state = $2
RETURNING id;

-- name: announce
-- The persisted state goes out as an event.
INSERT INTO outbox (topic, key, value) VALUES ('program-status', $1, $2);

-- name: wake
-- A run of the program ended: of those that this may let go, the ones that wait longest are looked at again, however many
-- wait besides. The others follow when one of these has run; the sweep catches what is left when none does. Under the
-- program's lock, so that no ruling overtakes it.
WITH woken AS (
    UPDATE jobs SET next_check_at = timestamptz 'epoch'
    WHERE id IN (
        SELECT id FROM jobs
        WHERE coalesce(program, '') = $1 AND state = 'PENDING_CONSTRAINT'
            AND next_check_at IS DISTINCT FROM timestamptz 'epoch' AND spared_at IS DISTINCT FROM checked_at
        ORDER BY satisfied_at, sequence
        LIMIT 100
    )
    RETURNING id
), rung AS (
    SELECT pg_notify('launcher', '') FROM woken LIMIT 1
)
SELECT (SELECT count(*) FROM woken) AS woken, (SELECT count(*) FROM rung) AS rung;

-- name: record
-- History.
INSERT INTO decisions (at, subject_kind, subject, action, reason) VALUES ($1, $2, $3, $4, $5);

-- name: unclaimed
-- PENDING runs that want a runner process now; each is taken by one launcher, which starts it after this commit.
UPDATE runs SET spawns = spawns + 1,
    spawn_at = ($2::timestamptz[])[spawns + 1] + (($2::timestamptz[])[spawns + 1] - $1) * ($4::float8 * random())
WHERE id IN (
    SELECT id FROM runs
    WHERE state = 'PENDING' AND executable ->> 'type' NOT IN ('http', 'publish')
        AND spawn_at <= $1 AND spawns < cardinality($2::timestamptz[])
    ORDER BY spawn_at, created_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
)
RETURNING id, spawns;

-- name: unclaimed_quick
-- The same of those that launchers execute themselves.
UPDATE runs SET spawns = spawns + 1,
    spawn_at = ($2::timestamptz[])[spawns + 1] + (($2::timestamptz[])[spawns + 1] - $1) * ($4::float8 * random())
WHERE id IN (
    SELECT id FROM runs
    WHERE state = 'PENDING' AND executable ->> 'type' IN ('http', 'publish')
        AND spawn_at <= $1 AND spawns < cardinality($2::timestamptz[])
    ORDER BY spawn_at, created_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
)
RETURNING id, spawns;

-- name: bucket
-- What is left of a pace, held until the transaction ends; its first user finds it full.
INSERT INTO buckets AS b (name, remaining, at) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET remaining = b.remaining
RETURNING remaining, at;

-- name: draw
-- So much is left then.
UPDATE buckets SET remaining = $2, at = $3 WHERE name = $1;

-- name: next_spawn
-- When the next PENDING run wants a runner process, or is given up; nobody waits for those that are held back.
SELECT min(spawn_at) FROM runs
WHERE state = 'PENDING' AND executable ->> 'type' NOT IN ('http', 'publish') AND spawn_at < 'infinity';

-- name: next_quick
-- The same of those that launchers execute themselves.
SELECT min(spawn_at) FROM runs
WHERE state = 'PENDING' AND executable ->> 'type' IN ('http', 'publish') AND spawn_at < 'infinity';

-- name: hopeless
-- PENDING runs nobody claimed, however often a runner process was started.
SELECT id FROM runs WHERE state = 'PENDING' AND spawn_at <= $1 AND spawns >= $2 ORDER BY spawn_at LIMIT 100;

-- name: overdue
-- Live runs past their deadline, which nobody wants to end yet: from here on somebody does.
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

-- name: condemned
-- PENDING runs that somebody wants to end.
SELECT id FROM runs WHERE state = 'PENDING' AND stop_requested IS NOT NULL ORDER BY id LIMIT 100;

-- name: silent
-- Claimed runs that have not been heard of, longest silent first; a page of them, from there on.
SELECT id, attempt, runner, heartbeat_at, log_path FROM runs
WHERE state IN ('STARTING', 'RUNNING', 'SUSPENDED') AND heartbeat_at < $1 AND (heartbeat_at, id) > ($3, $4)
ORDER BY heartbeat_at, id
LIMIT $2;

-- name: next_attempt
-- A failed run's job gets another, of the same program and arguments, to be started then.
INSERT INTO runs (id, job, attempt, program, executable, arguments, state, created_at, spawn_at)
SELECT $2, job, attempt + 1, program, executable, arguments, $3, $4::timestamptz, $5::timestamptz
FROM runs WHERE id = $1
RETURNING id;
