-- Jobs whose last run failed.

-- name: failed
-- Of the newest $3 jobs of a schedule made since $2, and as many of the history, those whose last run is in one of the
-- states $4, oldest first, and whether another job repeats that run. Each row says how many were examined; one row
-- without a job when there is none.
WITH examined AS (
    (SELECT j.id, j.created_at, j.state, j.ready -> 'submission' -> 'rerun' ->> 'run' AS repeats,
        NULL::timestamptz AS done_at, NULL::text[] AS runs
    FROM jobs j WHERE j.schedule = $1 AND j.created_at >= $2
    ORDER BY j.created_at DESC, j.id DESC LIMIT $3)
    UNION ALL
    (SELECT h.id, h.created_at, h.state, h.record -> 'ready' -> 'submission' -> 'rerun' ->> 'run', h.done_at, h.runs
    FROM jobs_history h WHERE h.schedule = $1 AND h.created_at >= $2
    ORDER BY h.created_at DESC, h.id DESC LIMIT $3)
), last AS (
    SELECT e.id, e.created_at, r.id AS run, r.attempt, r.state AS outcome, r.reason, r.ended_at
    FROM examined e
    CROSS JOIN LATERAL (SELECT * FROM runs WHERE job = e.id ORDER BY attempt DESC LIMIT 1) AS r
    WHERE e.state = 'LAUNCHED' AND e.done_at IS NULL
    UNION ALL
    SELECT e.id, e.created_at, r.id, r.attempt, r.state, r.reason, r.ended_at
    FROM examined e
    JOIN runs_history h ON h.id = e.runs[cardinality(e.runs)] AND h.done_at = e.done_at
    CROSS JOIN LATERAL jsonb_populate_record(NULL::runs, h.record) AS r
    WHERE e.state = 'LAUNCHED' AND e.done_at IS NOT NULL
), failed AS (
    SELECT * FROM last WHERE outcome = ANY ($4::text[]) AND ended_at IS NOT NULL
)
SELECT n.examined, f.id, f.run, f.attempt, f.outcome, f.reason, f.ended_at, f.run IN (SELECT repeats FROM examined WHERE repeats IS NOT NULL) AS repeated
FROM (SELECT count(*) AS examined FROM examined) AS n LEFT JOIN failed f ON true
ORDER BY f.created_at, f.id;

-- name: readies
-- These jobs as they were satisfied.
SELECT id, ready::text AS ready FROM jobs WHERE id = ANY ($1::text[])
UNION ALL
SELECT h.id, (h.record -> 'ready')::text FROM jobs_history h WHERE h.id = ANY ($1::text[]);
