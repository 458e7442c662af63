-- name: lock_schedules
-- Of the jobs of these runs: a concurrent disabling waits, or is seen here.
SELECT id, definition FROM schedules
WHERE id IN (SELECT j.schedule FROM runs r JOIN jobs j ON j.id = r.job WHERE r.id = ANY($1::text[]))
ORDER BY id FOR SHARE;

-- name: claim
-- PENDING → STARTING of the plain ones, their jobs LAUNCHED, with history. It frees and wakes nothing, so it needs no
-- program's lock. The states repeat domain.run.TRANSITIONS and domain.job.TRANSITIONS.
WITH plain AS (
    SELECT r.id FROM runs r LEFT JOIN jobs j ON j.id = r.job LEFT JOIN schedules s ON s.id = j.schedule
    WHERE r.id = ANY($1::text[]) AND r.state = 'PENDING' AND r.stop_requested IS NULL
        AND (r.job IS NULL OR (s.admits AND s.deleted_at IS NULL
            AND s.definition ->> 'maxDuration' IS NULL AND s.definition -> 'deadlines' IS NULL AND j.state IN ('PENDING_LAUNCH', 'LAUNCHED')
            AND j.generation BETWEEN s.oldest_valid_generation AND s.generation))
), claimed AS (
    UPDATE runs r SET state = 'STARTING', runner = $2, log_path = $3, heartbeat_at = $4::timestamptz, spawn_at = NULL
    FROM plain WHERE r.id = plain.id AND r.state = 'PENDING'
    RETURNING r.id, r.attempt, r.job, r.executable, r.arguments
), launched AS (
    UPDATE jobs j SET state = 'LAUNCHED', reason = 'run ' || c.id, ended_at = $4::timestamptz
    FROM claimed c WHERE j.id = c.job AND j.state = 'PENDING_LAUNCH'
    RETURNING j.id, j.reason
), recorded AS (
    INSERT INTO decisions (at, subject_kind, subject, action, reason)
    SELECT $4::timestamptz, 'run', id, 'run.claimed', 'by runner ' || $2 FROM claimed
    UNION ALL SELECT $4::timestamptz, 'job', id, 'job.launched', reason FROM launched
)
SELECT c.id, c.attempt, c.job, c.executable, c.arguments, j.schedule, j.ready::text AS ready
FROM claimed c LEFT JOIN jobs j ON j.id = c.job;

-- name: beat
-- Heartbeats, and requested stops. Missing runs are no longer this runner's.
UPDATE runs SET heartbeat_at = $3::timestamptz
WHERE id = ANY($1::text[]) AND runner = $2 AND state IN ('STARTING', 'RUNNING', 'SUSPENDED')
RETURNING id, stop_requested, stop_at_once;

-- name: starting
-- Live runs that are still this runner's, locked, and what their status events say.
SELECT r.id, r.program, r.arguments, r.state, r.stop_requested, r.stop_at_once, r.muted, r.job, j.schedule, j.ancestors,
    j.created_at AS job_created_at
FROM runs r LEFT JOIN jobs j ON j.id = r.job
WHERE r.id = ANY($1::text[]) AND r.runner = $2 AND r.state IN ('STARTING', 'RUNNING', 'SUSPENDED')
ORDER BY r.id FOR UPDATE OF r;

-- name: start
-- STARTING → RUNNING; it frees and wakes nothing, so it needs no program's lock.
UPDATE runs SET state = 'RUNNING', started_at = $2::timestamptz, heartbeat_at = $2::timestamptz
WHERE id = ANY($1::text[]);

-- name: going_on
-- Live runs, before any lock.
SELECT r.id, r.program, r.arguments, r.state, r.stop_requested, r.stop_at_once, r.muted, r.job, j.schedule, j.ancestors,
    j.created_at AS job_created_at
FROM runs r LEFT JOIN jobs j ON j.id = r.job
WHERE r.id = ANY($1::text[]) AND r.state IN ('STARTING', 'RUNNING', 'SUSPENDED') ORDER BY r.id;

-- name: live
-- Live runs, after the wait for the locks of programs $2, whose holder decides about them, and then for their own. Both
-- sorted.
WITH locked AS MATERIALIZED (
    SELECT id FROM programs WHERE id = ANY($2::text[]) ORDER BY id FOR UPDATE
)
SELECT id, state FROM runs
WHERE id = ANY($1::text[]) AND state IN ('STARTING', 'RUNNING', 'SUSPENDED') AND (SELECT count(*) FROM locked) >= 0
ORDER BY id FOR UPDATE;

-- name: finish
-- The end of runs, which are read by their index, however many others the planner believes there are.
UPDATE runs r SET state = n.state, reason = n.reason, ended_at = n.at,
    started_at = CASE WHEN n.exit_code IS NULL THEN r.started_at ELSE coalesce(r.started_at, n.at) END,
    exit_code = n.exit_code
FROM unnest($1::text[], $2::text[], $3::integer[], $4::text[], $5::timestamptz[]) AS n (id, state, exit_code, reason, at)
WHERE r.id = ANY(ARRAY(SELECT unnest($1::text[]))) AND r.id = n.id;
