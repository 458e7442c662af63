-- What an administrator asks.

-- name: facts
-- Whose server it is, its clock, and what we must be able to do with our tables and cannot.
SELECT current_setting('server_version') AS server, clock_timestamp() AS now,
    to_regclass('alembic_version') IS NOT NULL AS migrated,
    array(
        SELECT format('%s: %s', c.relname, privilege)
        FROM pg_class c, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
        WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace
            AND NOT has_table_privilege(c.oid, privilege)
        ORDER BY 1
    ) AS forbidden;

-- name: revision
-- Of the schema.
SELECT version_num FROM alembic_version;

-- name: standing
-- What should be little: records on their way to the log, and how late timers are.
SELECT (SELECT count(*) FROM outbox)::int AS outbox, (SELECT min(created_at) FROM outbox) AS outbox_since,
    coalesce(greatest(0, extract(epoch FROM clock_timestamp() - least(
        (SELECT min(due_at) FROM timers), (SELECT min(due_at) FROM wakes)))), 0)::float8 AS late;

-- name: leases
-- Who holds what.
SELECT name, owner, epoch, extract(epoch FROM expires_at - now())::float8 AS expires_in, wanted_by
FROM leases ORDER BY name;

-- name: numbers
-- How far the numbers of jobs have come, of each generation, also where the jobs have left for the history.
SELECT schedule, generation, max(sequence) AS number FROM (
    SELECT schedule, generation, sequence FROM jobs
    UNION ALL
    SELECT schedule, generation, sequence FROM jobs_spent
) AS known
GROUP BY schedule, generation;

-- name: positions
-- Up to where a topic is stored, or below which its letters are hidden.
SELECT partition, position FROM intake_positions WHERE topic = $1;

-- name: hide
-- Never back: who hides later may have looked earlier.
INSERT INTO intake_positions AS known (topic, partition, position)
SELECT $1, partition, position FROM unnest($2::integer[], $3::bigint[]) AS given (partition, position)
ON CONFLICT (topic, partition) DO UPDATE SET position = greatest(known.position, excluded.position);

-- name: hold_schedule
-- The generation that stands, of a deleted one 0: no change comes before what is written beside this.
SELECT CASE WHEN deleted_at IS NULL THEN generation ELSE 0 END FROM schedules WHERE id = $1 FOR SHARE;
