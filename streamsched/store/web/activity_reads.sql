-- What pages read about events and runs. `prefix` is `namespace.`, or NULL for all.

-- name: verdicts
-- The verdicts of events with the ids $1, counted; by the index of their hashes.
SELECT event, source, verdict, count(*)::int AS number FROM verdicts
WHERE hashtextextended(event, 0) = ANY (ARRAY(SELECT hashtextextended(e, 0) FROM unnest($1::text[]) AS e))
    AND event = ANY ($1::text[])
GROUP BY event, source, verdict;

-- name: late
-- Which of the events $2 came late for which of the schedules $1.
SELECT DISTINCT subject AS schedule, event FROM verdicts
WHERE hashtextextended(event, 0) = ANY (ARRAY(SELECT hashtextextended(e, 0) FROM unnest($2::text[]) AS e))
    AND event = ANY ($2::text[]) AND subject = ANY ($1::text[]) AND (verdict = 'late' OR late IS NOT NULL);

-- name: consumed
-- The newest $2 jobs of a schedule with their events, unless these have more than $3 bytes.
SELECT id AS job, CASE WHEN pg_column_size(ready) <= $3 THEN ready END AS ready FROM jobs
WHERE schedule = $1 ORDER BY created_at DESC, id DESC LIMIT $2;

-- name: run_days
-- The newest $3 runs of each day in $2, by state; the history included.
SELECT d.day, r.state, count(*)::int AS number
FROM unnest($2::date[]) AS d (day)
CROSS JOIN LATERAL (
    SELECT state FROM (
        (SELECT id, state, created_at FROM runs
        WHERE created_at >= d.day::timestamp AT TIME ZONE 'UTC'
            AND created_at < (d.day + 1)::timestamp AT TIME ZONE 'UTC'
        ORDER BY created_at DESC LIMIT $3)
        UNION ALL
        (SELECT id, state, created_at FROM runs_history
        WHERE created_at >= d.day::timestamp AT TIME ZONE 'UTC'
            AND created_at < (d.day + 1)::timestamp AT TIME ZONE 'UTC'
        ORDER BY created_at DESC LIMIT $3)
    ) AS both_tables
    WHERE $1::text IS NULL OR starts_with(id, $1)
    ORDER BY created_at DESC LIMIT $3
) AS r
GROUP BY d.day, r.state;

-- name: run_days_of_program
-- As `run_days`, of the program $1.
SELECT d.day, r.state, count(*)::int AS number
FROM unnest($2::date[]) AS d (day)
CROSS JOIN LATERAL (
    (SELECT state FROM runs
    WHERE program = $1 AND created_at >= d.day::timestamp AT TIME ZONE 'UTC'
        AND created_at < (d.day + 1)::timestamp AT TIME ZONE 'UTC'
    ORDER BY created_at DESC LIMIT $3)
    UNION ALL
    (SELECT state FROM runs_history
    WHERE program = $1 AND created_at >= d.day::timestamp AT TIME ZONE 'UTC'
        AND created_at < (d.day + 1)::timestamp AT TIME ZONE 'UTC'
    ORDER BY created_at DESC LIMIT $3)
) AS r
GROUP BY d.day, r.state;

-- name: missed
-- Jobs that missed a deadline, among the newest $2.
SELECT id AS job, missed, created_at AS at FROM (
    SELECT id, missed, created_at FROM jobs ORDER BY created_at DESC, id DESC LIMIT $2
) AS j
WHERE missed IS NOT NULL AND ($1::text IS NULL OR starts_with(id, $1))
ORDER BY created_at DESC, id DESC LIMIT $3;
