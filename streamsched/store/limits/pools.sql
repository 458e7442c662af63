-- name: first
-- The first jobs of the queues of pools; under the pools' locks no decision changes them. A job without a schedule is
-- in the pool of its program.
SELECT n.pool, g.age_s, q.job, q.turn_at, q.sequence
FROM unnest($1::text[]) AS n (pool) LEFT JOIN groups g ON g.name = 'pool:' || n.pool LEFT JOIN LATERAL (
    SELECT l.job, l.turn_at, l.sequence
    FROM lines l JOIN jobs j ON j.id = l.job LEFT JOIN schedules s ON s.id = j.schedule
    WHERE l.pool = n.pool AND j.state = 'PENDING_CONSTRAINT' AND (s.pool = n.pool OR j.schedule IS NULL)
    ORDER BY l.turn_at, l.sequence, l.job
    LIMIT $2
) AS q ON true
ORDER BY n.pool, q.turn_at, q.sequence, q.job;

-- name: pools
-- The pools in whose queues these jobs are.
SELECT DISTINCT pool FROM lines WHERE job = ANY($1::text[]);

-- name: leave
-- Removes decided jobs from the queues of pools; the decision may queue them again.
DELETE FROM lines WHERE job = ANY($1::text[]);

-- name: enter
-- Jobs that wait only for a place.
INSERT INTO lines (job, pool, turn_at, sequence) SELECT * FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::bigint[]);

-- name: reorder
-- Recomputes the positions in a pool, or those of one schedule, from priority and age.
UPDATE lines l SET turn_at = j.satisfied_at
    - make_interval(secs => coalesce(s.priority_set, s.priority, 0) * coalesce(g.age_s, 60))
FROM jobs j JOIN schedules s ON s.id = j.schedule JOIN groups g ON g.name = 'pool:' || s.pool
WHERE l.job = j.id AND l.pool = $1 AND s.pool = $1 AND ($2::text IS NULL OR s.id = $2);

-- name: set
-- Sets the size (NULL: left to the schedules) and the age (NULL: unchanged).
INSERT INTO groups (name, slots, age_s, changed_at) VALUES ('pool:' || $1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE SET slots = excluded.slots, age_s = coalesce(excluded.age_s, groups.age_s),
    changed_at = excluded.changed_at;

-- name: settings
-- The settings of a pool, locked; none of one that was never used.
SELECT slots, age_s FROM groups WHERE name = 'pool:' || $1 FOR UPDATE;

-- name: prioritize
-- Sets a schedule's priority; NULL: that of its definition. No row: no such schedule in a pool.
UPDATE schedules SET priority_set = $2 WHERE id = $1 AND deleted_at IS NULL AND pool IS NOT NULL RETURNING pool;

-- name: list
-- Pools with the runs that hold places, oldest first, and the length of the queue; at most $3 (NULL: all) after name $2.
SELECT substr(g.name, 6) AS name, g.slots, g.age_s, g.changed_at, held.runs, (
        SELECT count(*) FROM lines l JOIN jobs j ON j.id = l.job
        WHERE l.pool = substr(g.name, 6) AND j.state = 'PENDING_CONSTRAINT'
    ) AS waiting
FROM groups g CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(s.run ORDER BY r.created_at, s.run), '{}') AS runs
    FROM group_slots s JOIN runs r ON r.id = s.run
    WHERE s.group_name = g.name
) AS held
WHERE g.name LIKE 'pool:%' AND ($1::text IS NULL OR g.name = 'pool:' || $1) AND g.name > 'pool:' || $2::text
ORDER BY g.name
LIMIT $3;

-- name: members
-- The schedules of pools, high priority first.
SELECT id, pool, coalesce(priority_set, priority) AS priority, priority_set FROM schedules
WHERE pool = ANY ($1::text[]) AND deleted_at IS NULL
ORDER BY pool, coalesce(priority_set, priority) DESC, id;


-- name: forget
-- Rows of jobs that no longer wait in a pool.
DELETE FROM lines WHERE job IN (
    SELECT l.job FROM lines l LEFT JOIN jobs j ON j.id = l.job LEFT JOIN schedules s ON s.id = j.schedule
    WHERE j.id IS NULL OR j.state <> 'PENDING_CONSTRAINT'
        OR (j.schedule IS NOT NULL AND s.pool IS DISTINCT FROM l.pool)
    LIMIT 10000
);
