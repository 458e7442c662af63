-- What an administrator asks.

-- name: server
-- Its version and clock, and the privileges this user lacks.
SELECT current_setting('server_version') AS server, clock_timestamp() AS now, array(
    SELECT format('%s: %s', c.relname, privilege)
    FROM pg_class c, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
    WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace
        AND NOT has_table_privilege(c.oid, privilege)
    ORDER BY 1
) AS forbidden;

-- name: backlog
-- Of the outbox, and how late timers are.
SELECT (SELECT count(*) FROM outbox)::int AS outbox, (SELECT min(created_at) FROM outbox) AS outbox_since,
    coalesce(greatest(0, extract(epoch FROM clock_timestamp() - least(
        (SELECT min(due_at) FROM timers), (SELECT min(due_at) FROM wakes)))), 0)::float8 AS late;

-- name: pending_grants
-- The first $1 uses by other namespaces that their owners have not decided about, and how many there are.
SELECT format('%s %s.%s to %s', kind, owner, name, grantee) AS text, count(*) OVER () AS total FROM namespace_grants
WHERE state = 'pending' ORDER BY owner, kind, name, grantee LIMIT $1;

-- name: executing
-- How many programs of each namespace execute something on the machines of launchers (domain/access/execution.py).
SELECT split_part(id, '.', 1) AS namespace, count(*)::int AS programs FROM programs
WHERE definition ->> 'type' IN ('bash', 'python')
    OR (definition ->> 'type' = 'spark' AND coalesce(definition ->> 'deploy_mode', '') <> 'cluster')
GROUP BY 1 ORDER BY 2 DESC, 1;

-- name: snapshot
-- The oldest transaction of this database that keeps dead rows from being removed, this one aside.
SELECT holder, extract(epoch FROM clock_timestamp() - since)::float8 AS age FROM (
    SELECT format('process %s of %s (%s)', pid, usename, coalesce(nullif(state, ''), 'running')) AS holder,
        xact_start AS since
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
        AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
    UNION ALL
    SELECT format('prepared transaction %s of %s', gid, owner), prepared FROM pg_prepared_xacts
    WHERE database = current_database()
) AS held
WHERE since IS NOT NULL ORDER BY since LIMIT 1;

-- name: unread
-- Readers of the history, and how many of its lines each has not read; numbers that no line got are counted.
SELECT name, greatest(0, (SELECT last_value FROM decisions_ids) - position) AS lines FROM history_readers;

-- name: zones
-- The zones that definitions of schedules name.
SELECT zone, count(DISTINCT id)::int AS schedules, min(id) AS example
FROM schedules, jsonb_path_query(definition, 'strict $.**.timeZone ? (@.type() == "string")') AS found (json),
    LATERAL (SELECT json #>> '{}' AS zone) AS text
WHERE deleted_at IS NULL
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 1000;

-- name: numbers
-- The highest job number of each generation, the history included.
SELECT schedule, generation, max(sequence) AS number FROM (
    SELECT schedule, generation, sequence FROM jobs WHERE NOT submitted
    UNION ALL
    SELECT schedule, generation, sequence FROM jobs_spent
) AS known
GROUP BY schedule, generation;

-- name: hide
-- Never moves back: a concurrent call may have computed an older position.
INSERT INTO intake_positions AS known (topic, partition, position)
SELECT $1, partition, position FROM unnest($2::integer[], $3::bigint[]) AS given (partition, position)
ON CONFLICT (topic, partition) DO UPDATE SET position = greatest(known.position, excluded.position);

-- name: hold_schedule
-- The current generation, 0 of a deleted schedule; a concurrent change waits until this commits.
SELECT CASE WHEN deleted_at IS NULL THEN generation ELSE 0 END FROM schedules WHERE id = $1 FOR SHARE;
