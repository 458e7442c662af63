-- Spans of jobs and runs that have ended. Migration 0088, ADR 18.

-- name: due_jobs
-- The jobs that ended first. The first run was made when the job was admitted.
SELECT j.id, j.program, j.state, j.created_at, j.ended_at, j.waiting, j.ready::text AS ready,
    (SELECT min(r.created_at) FROM runs r WHERE r.job = j.id) AS admitted_at
FROM jobs j
WHERE j.spans = 'due' AND j.ended_at IS NOT NULL
ORDER BY j.ended_at
LIMIT $1;

-- name: due_runs
-- The runs that ended first.
SELECT r.id, r.program, r.attempt, r.state, r.created_at, r.started_at, r.ended_at, r.exit_code, j.ready::text AS ready,
    j.created_at AS stored_at
FROM runs r LEFT JOIN jobs j ON j.id = r.job
WHERE r.spans = 'due' AND r.ended_at IS NOT NULL
ORDER BY r.ended_at
LIMIT $1;

-- name: settle_jobs
-- Their spans are sent or dropped.
UPDATE jobs SET spans = $2 WHERE id = ANY($1::text[]) AND spans = 'due';

-- name: settle_runs
-- The same of runs.
UPDATE runs SET spans = $2 WHERE id = ANY($1::text[]) AND spans = 'due';

-- name: drop_old
-- Those that ended before then are not sent any more; a bounded number.
WITH old_jobs AS (
    UPDATE jobs SET spans = 'dropped' WHERE id IN (
        SELECT id FROM jobs WHERE spans = 'due' AND ended_at IS NOT NULL AND ended_at < $1
        ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED
    )
    RETURNING id
), old_runs AS (
    UPDATE runs SET spans = 'dropped' WHERE id IN (
        SELECT id FROM runs WHERE spans = 'due' AND ended_at IS NOT NULL AND ended_at < $1
        ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED
    )
    RETURNING id
)
SELECT (SELECT count(*) FROM old_jobs) + (SELECT count(*) FROM old_runs) AS dropped;
