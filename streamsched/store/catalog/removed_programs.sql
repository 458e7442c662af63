-- Programs that were deleted while schedules of other namespaces waited for them.

-- name: awaiting
-- Schedules of other apps than $1 that wait for one of the programs $2; $3 has their `programId`, as triggers have it.
SELECT s.id, given.program
FROM unnest($2::text[], $3::jsonb[]) AS given (program, awaited)
JOIN schedules s ON jsonb_path_query_array(s.definition, '$.trigger.**.programId') @> jsonb_build_array(given.awaited)
WHERE s.deleted_at IS NULL AND s.app <> $1;

-- name: awaiting_one
-- Schedules of any namespace that wait for the program with this `programId`.
SELECT s.id FROM schedules s
WHERE s.deleted_at IS NULL
    AND jsonb_path_query_array(s.definition, '$.trigger.**.programId') @> jsonb_build_array($1::jsonb);

-- name: put
-- Schedules that stay although the program they wait for is deleted.
INSERT INTO removed_programs (schedule, program, removed_at, removed_by)
SELECT schedule, program, $3, $4 FROM unnest($1::text[], $2::text[]) AS given (schedule, program)
ON CONFLICT (schedule, program) DO UPDATE SET removed_at = excluded.removed_at, removed_by = excluded.removed_by;

-- name: deployed
-- These programs exist.
DELETE FROM removed_programs WHERE program = ANY ($1::text[]);

-- name: forget
-- These schedules were deleted.
DELETE FROM removed_programs WHERE schedule = ANY ($1::text[]);

-- name: activity
-- Whether these schedules are enabled: a line of the history says so.
SELECT id, enabled FROM schedules WHERE id = ANY ($1::text[]);
