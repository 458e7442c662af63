-- name: ensure
-- Creates groups on first use; sorted, so that concurrent creations do not deadlock.
INSERT INTO groups (name) SELECT name FROM unnest($1::text[]) AS name ORDER BY name ON CONFLICT DO NOTHING;

-- name: taken
-- The slots taken of groups.
SELECT g.name, g.slots, (SELECT coalesce(sum(weight), 0)::bigint FROM group_slots s WHERE s.group_name = g.name) AS taken
FROM groups g WHERE g.name = ANY($1::text[]);

-- name: lock
-- The holder of these locks takes and frees slots. No row when one of the groups is missing: it is created before.
SELECT name FROM groups
WHERE name = ANY($1::text[]) AND (SELECT count(*) FROM groups WHERE name = ANY($1::text[])) = cardinality($1::text[])
ORDER BY name FOR UPDATE;

-- name: list
-- Groups with their holders, oldest run first, and how many jobs wait; all but pools and quotas where none is named; at most $3
-- (NULL: all) after name $2.
SELECT g.name, g.slots, g.changed_at, held.runs, held.weights,
    (SELECT count(*) FROM group_waits w WHERE w.group_name = g.name) AS waiting
FROM groups g CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(s.run ORDER BY r.created_at, s.run), '{}') AS runs,
        coalesce(array_agg(s.weight ORDER BY r.created_at, s.run), '{}') AS weights
    FROM group_slots s JOIN runs r ON r.id = s.run
    WHERE s.group_name = g.name
) AS held
WHERE (g.name = ANY($1::text[]) OR ($1::text[] IS NULL AND g.name NOT LIKE 'pool:%' AND g.name NOT LIKE 'quota:%')) AND g.name > $2
ORDER BY g.name
LIMIT $3;

-- name: holders
-- The runs that hold slots of these groups.
SELECT r.id, r.state, coalesce(r.started_at, r.created_at) AS since, j.schedule
FROM runs r LEFT JOIN jobs j ON j.id = r.job
WHERE r.id IN (SELECT run FROM group_slots WHERE group_name = ANY($1::text[]))
ORDER BY r.created_at, r.id;

-- name: set_limit
-- NULL: left to the schedules.
INSERT INTO groups (name, slots, changed_at) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET slots = excluded.slots, changed_at = excluded.changed_at;


-- name: take
-- Slots of new runs.
INSERT INTO group_slots (group_name, run, weight) SELECT * FROM unnest($1::text[], $2::text[], $3::integer[]);

-- name: lock_held
-- Locks the groups of which runs hold slots, and returns how many, in lock order.
SELECT g.name, s.slots FROM groups g JOIN (
    SELECT group_name, sum(weight)::bigint AS slots FROM group_slots WHERE run = ANY($1::text[]) GROUP BY group_name
) AS s ON s.group_name = g.name
ORDER BY g.name FOR UPDATE OF g;

-- name: hand_over
-- The number of slots does not change, so the groups need no lock.
UPDATE group_slots s SET run = n.again FROM unnest($1::text[], $2::text[]) AS n (run, again) WHERE s.run = n.run;

-- name: queue
-- Jobs that wait for a slot, woken in the order of their satisfactions.
INSERT INTO group_waits (group_name, job, satisfied_at, weight, max_slots, slots_only)
SELECT n.group_name, n.job, j.satisfied_at, n.weight, n.max_slots, n.slots_only
FROM unnest($1::text[], $2::text[], $3::integer[], $4::integer[], $5::boolean[])
    AS n (group_name, job, weight, max_slots, slots_only) JOIN jobs j ON j.id = n.job;

-- name: wake
-- Wakes the jobs that wait longest for these groups, of any program, as many as slots became free, if the free slots are
-- enough for them. Runs under the groups' locks, so no decision is concurrent; a job locked by another transaction is
-- being woken or ended, and is skipped. A job that takes no slot wakes the next (`groups.settle`). The runs $3 have ended
-- and give up their slots.
WITH freed AS (
    DELETE FROM group_slots WHERE run = ANY($3::text[])
), room AS MATERIALIZED (
    SELECT g.name, g.slots, n.amount, (
        SELECT coalesce(sum(s.weight), 0) FROM group_slots s WHERE s.group_name = g.name AND s.run <> ALL($3::text[])
    ) AS taken
    FROM unnest($1::text[], $2::bigint[]) AS n (name, amount) JOIN groups g ON g.name = n.name
), free AS MATERIALIZED (
    SELECT first.job FROM room CROSS JOIN LATERAL (
        SELECT w.job FROM group_waits w JOIN jobs j ON j.id = w.job
        WHERE w.group_name = room.name AND j.state = 'PENDING_CONSTRAINT'
            AND room.taken + coalesce(w.weight, 1) <= coalesce(room.slots, w.max_slots, 2147483647)
        ORDER BY w.satisfied_at, w.job
        LIMIT room.amount
        FOR UPDATE OF j SKIP LOCKED
    ) AS first
), woken AS (
    UPDATE jobs SET next_check_at = timestamptz 'epoch' WHERE id IN (SELECT job FROM free) RETURNING id
), left_queue AS (
    DELETE FROM group_waits WHERE job IN (SELECT id FROM woken) AND group_name = ANY($1::text[])
)
SELECT pg_notify('launcher', '') FROM woken LIMIT 1;

-- name: wake_lines
-- Wakes the first jobs of each pool's queue, as many as places are free. Runs under the pools' locks; a job locked by
-- another transaction is being woken, decided or ended.
WITH first AS (
    SELECT q.job FROM unnest($1::text[], $2::bigint[]) AS n (name, places) CROSS JOIN LATERAL (
        SELECT l.job FROM lines l JOIN jobs j ON j.id = l.job
        WHERE l.pool = substr(n.name, 6) AND j.state = 'PENDING_CONSTRAINT'
        ORDER BY l.turn_at, l.sequence, l.job
        LIMIT n.places
    ) AS q
), idle AS MATERIALIZED (
    SELECT id FROM jobs
    WHERE id IN (SELECT job FROM first) AND state = 'PENDING_CONSTRAINT'
        AND next_check_at IS DISTINCT FROM timestamptz 'epoch'
    FOR UPDATE SKIP LOCKED
), woken AS (
    UPDATE jobs SET next_check_at = timestamptz 'epoch' WHERE id IN (SELECT id FROM idle) RETURNING id
)
SELECT pg_notify('launcher', '') FROM woken LIMIT 1;
