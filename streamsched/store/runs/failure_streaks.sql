-- Schedules whose runs failed too often in a row. See domain.pause.PauseAfter.

-- name: policy
-- The number of failures after which the schedule pauses itself, and since when it has this generation; no row without
-- such a policy or when the generation is not current.
SELECT definition -> 'pauseAfter' AS policy, updated_at FROM schedules
WHERE id = $1 AND generation = $2 AND enabled AND definition -> 'pauseAfter' IS NOT NULL;

-- name: latest
-- States of the last runs of the latest jobs of a generation, newest first. Jobs of backfills do not count, nor does a
-- run that a user killed; one stopped for its duration ($4) does. The history is read from one hour before the generation began ($5), because clocks
-- may differ by that much.
SELECT state FROM (
    (SELECT r.state, j.created_at, j.id
    FROM jobs j CROSS JOIN LATERAL (SELECT * FROM runs WHERE job = j.id ORDER BY attempt DESC LIMIT 1) AS r
    WHERE j.schedule = $1 AND j.generation = $2 AND j.backfill IS NULL
        AND (r.state IN ('COMPLETED', 'FAILED', 'LOST') OR r.state = 'KILLED' AND r.stop_requested = $4)
    ORDER BY j.created_at DESC, j.id DESC
    LIMIT $3)
    UNION ALL
    (SELECT r.state, j.created_at, j.id
    FROM jobs_history j JOIN runs_history r ON r.id = j.runs[cardinality(j.runs)] AND r.done_at = j.done_at
    WHERE j.schedule = $1 AND j.created_at >= $5::timestamptz - interval '1 hour'
        AND j.done_at >= $5::timestamptz - interval '1 hour' AND r.done_at >= $5::timestamptz - interval '1 hour'
        AND (j.record ->> 'generation')::bigint = $2 AND j.record ->> 'backfill' IS NULL
        AND (r.state IN ('COMPLETED', 'FAILED', 'LOST') OR r.state = 'KILLED' AND r.record ->> 'stop_requested' = $4)
    ORDER BY j.created_at DESC, j.id DESC
    LIMIT $3)
) AS ended
ORDER BY created_at DESC, id DESC
LIMIT $3;

-- name: request_pause
-- Requests a pause, if the generation is still current once locked; notifies the resumption loop.
WITH wished AS (
    INSERT INTO breaks AS known (schedule, generation, at, keep, until, note) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (schedule) DO UPDATE SET generation = excluded.generation, at = excluded.at, keep = excluded.keep,
        until = excluded.until, note = excluded.note
    WHERE known.generation < excluded.generation
    RETURNING schedule
)
SELECT pg_notify('timers', '') FROM wished;
