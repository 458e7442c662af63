-- The processes that deliver tasks. Their leases are in table `leases`, as those of shards.

-- name: beat
-- As `beat` of server/leases.sql, of owners of task partitions: their heartbeats are in a table of their own, because a
-- row in `workers` is a process that runs shards.
WITH alive AS (
    INSERT INTO task_owners (id, host, pid, seen_at) VALUES ($1, $2, $3, now())
    ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, seen_at = excluded.seen_at
    RETURNING id
), forgotten AS (
    DELETE FROM task_owners WHERE id IN (
        SELECT id FROM task_owners WHERE seen_at < now() - $6::interval AND id <> $1 FOR UPDATE SKIP LOCKED
    )
), own AS (
    SELECT l.name FROM leases l JOIN unnest($7::text[], $8::bigint[]) AS held (name, epoch) USING (name, epoch)
    WHERE l.owner = $1
    ORDER BY l.name FOR UPDATE OF l
), renewed AS (
    UPDATE leases SET expires_at = now() + $5::interval FROM own WHERE leases.name = own.name
    RETURNING leases.name, leases.expires_at
)
SELECT
    array(
        SELECT (each.id, $4::integer) FROM (
            SELECT id FROM task_owners
            WHERE seen_at > now() - $5::interval AND seen_at < now() + 10 * $5::interval AND id <> $1
            UNION ALL SELECT id FROM alive
        ) each ORDER BY each.id
    ) AS workers,
    array(
        SELECT (l.name, l.owner, l.epoch,
            CASE WHEN until.at < now() + 10 * $5::interval THEN extract(epoch FROM until.at - now()) ELSE 0 END::float8,
            l.wanted_by, l.format)
        FROM leases l LEFT JOIN renewed r USING (name), coalesce(r.expires_at, l.expires_at) AS until (at)
        WHERE l.name LIKE 'tasks-%'
        ORDER BY l.name
    ) AS leases;

-- name: leave
-- Removes the owner.
DELETE FROM task_owners WHERE id = $1;
