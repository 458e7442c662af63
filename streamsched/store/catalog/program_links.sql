-- What starts which programs in a namespace, by the triggers of schedules.

-- name: links
-- Of other apps than $1 of the namespace $2: joins per run of an ancestor; and the schedules that start what these, the
-- schedules of $1 and those to come ($3) wait for, and so on upwards.
WITH RECURSIVE joins AS (
    SELECT id, definition FROM schedules
    WHERE deleted_at IS NULL AND jsonb_path_exists(definition, '$.trigger.**.runOf') AND starts_with(id, $2 || '.')
), below (definition) AS (
    SELECT definition FROM joins
    UNION ALL
    SELECT definition FROM schedules WHERE app = $1 AND deleted_at IS NULL
), awaited (program) AS (
    SELECT unnest($3::text[])
    UNION
    SELECT format('%s.%s.%s', p.id ->> 'namespace', p.id ->> 'application', p.id ->> 'program')
    FROM below CROSS JOIN LATERAL jsonb_path_query(below.definition, '$.trigger.**.programId') AS p (id)
    WHERE p.id ->> 'namespace' = $2
), up (id) AS (
    SELECT s.id FROM awaited a JOIN schedules s ON s.program = a.program AND s.deleted_at IS NULL
    UNION
    SELECT above.id FROM up JOIN schedules s ON s.id = up.id
    CROSS JOIN LATERAL jsonb_path_query(s.definition, '$.trigger.**.programId') AS p (id)
    JOIN schedules above ON above.deleted_at IS NULL
        AND above.program = format('%s.%s.%s', p.id ->> 'namespace', p.id ->> 'application', p.id ->> 'program')
    WHERE p.id ->> 'namespace' = $2
)
SELECT s.id, s.program, s.definition -> 'trigger' AS trigger
FROM (SELECT id FROM up UNION SELECT id FROM joins) AS found JOIN schedules s USING (id)
WHERE s.app <> $1 AND starts_with(s.id, $2 || '.')
ORDER BY s.id;
