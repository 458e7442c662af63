-- name: first
-- The first of the lines of pools; under the pools' locks no ruling changes them.
SELECT n.pool, g.age_s, q.job, q.turn_at, q.sequence
FROM unnest($1::text[]) AS n (pool) LEFT JOIN groups g ON g.name = 'pool:' || n.pool LEFT JOIN LATERAL (
    SELECT l.job, l.turn_at, l.sequence FROM lines l JOIN jobs j ON j.id = l.job JOIN schedules s ON s.id = j.schedule
    WHERE l.pool = n.pool AND j.state = 'PENDING_CONSTRAINT' AND s.pool = n.pool
    ORDER BY l.turn_at, l.sequence, l.job
    LIMIT $2
) AS q ON true
ORDER BY n.pool, q.turn_at, q.sequence, q.job;

-- name: pools
-- In whose lines these jobs stand.
SELECT DISTINCT pool FROM lines WHERE job = ANY($1::text[]);

-- name: leave
-- Jobs that were ruled on stand in no line, unless the ruling says so.
DELETE FROM lines WHERE job = ANY($1::text[]);

-- name: enter
-- They wait for nothing but a place.
INSERT INTO lines (job, pool, turn_at, sequence) SELECT * FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::bigint[]);

-- name: reorder
-- The line of a pool, or what one schedule has in it, as priority and age are now.
UPDATE lines l SET turn_at = j.satisfied_at
    - make_interval(secs => coalesce(s.priority_set, s.priority, 0) * coalesce(g.age_s, 60))
FROM jobs j JOIN schedules s ON s.id = j.schedule JOIN groups g ON g.name = 'pool:' || s.pool
WHERE l.job = j.id AND l.pool = $1 AND s.pool = $1 AND ($2::text IS NULL OR s.id = $2);

-- name: set
-- The size from here on, NULL: left to the schedules; and the age, NULL: as it was.
INSERT INTO groups (name, slots, age_s, changed_at) VALUES ('pool:' || $1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE SET slots = excluded.slots, age_s = coalesce(excluded.age_s, groups.age_s),
    changed_at = excluded.changed_at;

-- name: prioritize
-- A schedule's priority from here on; NULL: its own. No row: there is no such schedule in a pool.
UPDATE schedules SET priority_set = $2 WHERE id = $1 AND deleted_at IS NULL AND pool IS NOT NULL RETURNING pool;

-- name: list
-- Pools with who has a place of them, oldest run first, and how many stand in line.
SELECT substr(g.name, 6) AS name, g.slots, g.age_s, g.changed_at, held.runs, (
        SELECT count(*) FROM lines l JOIN jobs j ON j.id = l.job
        WHERE l.pool = substr(g.name, 6) AND j.state = 'PENDING_CONSTRAINT'
    ) AS waiting
FROM groups g CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(s.run ORDER BY r.created_at, s.run), '{}') AS runs
    FROM group_slots s JOIN runs r ON r.id = s.run
    WHERE s.group_name = g.name
) AS held
WHERE g.name LIKE 'pool:%' AND ($1::text IS NULL OR g.name = 'pool:' || $1)
ORDER BY g.name;

-- name: members
-- The schedules of pools, high first.
SELECT id, pool, coalesce(priority_set, priority) AS priority, priority_set FROM schedules
WHERE pool IS NOT NULL AND deleted_at IS NULL AND ($1::text IS NULL OR pool = $1)
ORDER BY pool, coalesce(priority_set, priority) DESC, id;

-- name: record
-- History.
INSERT INTO decisions (at, subject_kind, subject, action, reason) VALUES ($1, $2, $3, $4, $5);

-- name: forget
-- Rows that say nothing any more.
DELETE FROM lines WHERE job IN (
    SELECT l.job FROM lines l LEFT JOIN jobs j ON j.id = l.job LEFT JOIN schedules s ON s.id = j.schedule
    WHERE j.id IS NULL OR j.state <> 'PENDING_CONSTRAINT' OR s.pool IS DISTINCT FROM l.pool
    LIMIT 10000
);
