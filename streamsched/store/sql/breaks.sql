-- Schedules whose runs failed too often in a row. See domain.pause.PauseAfter.

-- name: policy
-- After how many failures the schedule pauses itself, and since when it is of that generation; no row when it never does,
-- or does not stand as it stood.
SELECT definition -> 'pauseAfter' AS policy, updated_at FROM schedules
WHERE id = $1 AND generation = $2 AND enabled AND definition -> 'pauseAfter' IS NOT NULL;

-- name: latest
-- How the latest jobs of a generation ended, the newest first: the last runs of those whose end says something. A run
-- that somebody killed says nothing, one that took too long ($4) does. None came before its generation ($5), as far as
-- clocks agree, who may differ by an hour: until some have left for the history, all that is there would be read in vain.
SELECT state FROM (
    (SELECT r.state, j.created_at, j.id
    FROM jobs j CROSS JOIN LATERAL (SELECT * FROM runs WHERE job = j.id ORDER BY attempt DESC LIMIT 1) AS r
    WHERE j.schedule = $1 AND j.generation = $2
        AND (r.state IN ('COMPLETED', 'FAILED', 'LOST') OR r.state = 'KILLED' AND r.stop_requested = $4)
    ORDER BY j.created_at DESC, j.id DESC
    LIMIT $3)
    UNION ALL
    (SELECT r.state, j.created_at, j.id
    FROM jobs_history j JOIN runs_history r ON r.id = j.runs[cardinality(j.runs)] AND r.done_at = j.done_at
    WHERE j.schedule = $1 AND j.created_at >= $5::timestamptz - interval '1 hour'
        AND j.done_at >= $5::timestamptz - interval '1 hour' AND r.done_at >= $5::timestamptz - interval '1 hour'
        AND (j.record ->> 'generation')::bigint = $2
        AND (r.state IN ('COMPLETED', 'FAILED', 'LOST') OR r.state = 'KILLED' AND r.record ->> 'stop_requested' = $4)
    ORDER BY j.created_at DESC, j.id DESC
    LIMIT $3)
) AS ended
ORDER BY created_at DESC, id DESC
LIMIT $3;

-- name: wish
-- It is to be paused, if it still is of that generation when its lock is had; those who do it are told.
WITH wished AS (
    INSERT INTO breaks AS known (schedule, generation, at, keep, until, note) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (schedule) DO UPDATE SET generation = excluded.generation, at = excluded.at, keep = excluded.keep,
        until = excluded.until, note = excluded.note
    WHERE known.generation < excluded.generation
    RETURNING schedule
)
SELECT pg_notify('timers', '') FROM wished;
