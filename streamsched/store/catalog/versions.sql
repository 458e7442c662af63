-- Versions of schedules: the definitions that they have had.

-- name: put
-- Definitions in the order given. Idempotent.
INSERT INTO schedule_versions (schedule, generation, at, reason, definition)
SELECT schedule, generation, at, reason, definition
FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::text[], $5::jsonb[])
    AS given (schedule, generation, at, reason, definition)
ON CONFLICT (schedule, generation) DO NOTHING;

-- name: forget
-- Removes all but the newest versions of these schedules.
DELETE FROM schedule_versions old
USING unnest($1::text[]) AS given (schedule)
WHERE old.schedule = given.schedule AND old.generation < (
    SELECT min(generation) FROM (
        SELECT generation FROM schedule_versions kept
        WHERE kept.schedule = given.schedule
        ORDER BY generation DESC
        LIMIT $2
    ) newest
);

-- name: versions
-- The newest versions of a schedule, newest first.
SELECT generation, at, reason, definition
FROM schedule_versions
WHERE schedule = $1
ORDER BY generation DESC
LIMIT $2;
