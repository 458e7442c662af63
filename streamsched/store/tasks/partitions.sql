-- The number of partitions of lanes, and the moves of lanes when it changes (ADR 25).

-- name: layout
-- Where lanes go, and the partitions that owners share, with their epochs.
SELECT y.partitions, y.wanted, y.settled,
    array(SELECT (p.partition, p.epoch) FROM task_partitions p ORDER BY p.partition) AS served
FROM task_layout y;

-- name: want
-- Asks for another number. Returns no row when it is the present one.
UPDATE task_layout SET wanted = $1, settled = false WHERE wanted <> $1 RETURNING wanted;

-- name: add
-- Owners take the partitions that are missing.
INSERT INTO task_partitions (partition, epoch) SELECT n, 0 FROM generate_series(0, $1::integer - 1) AS n
ON CONFLICT (partition) DO NOTHING;

-- name: switch
-- New lanes go to the wanted partitions, if so many are still wanted.
UPDATE task_layout SET partitions = wanted WHERE wanted = $1;

-- name: move
-- Moves the lanes after $1, at most $2 in the order of their ids, that are not where new ones would go. One in flight
-- stays in its partition until it is freed. Returns the last lane that was read, NULL after all.
WITH batch AS MATERIALIZED (
    SELECT l.id, l.partition <> task_partition_v1(l.id, y.partitions) AS away
    FROM task_layout y CROSS JOIN LATERAL (SELECT id, partition FROM task_lanes WHERE id > $1 ORDER BY id LIMIT $2) AS l
), away AS MATERIALIZED (
    SELECT l.id FROM task_lanes l WHERE l.id = ANY(ARRAY(SELECT id FROM batch WHERE away)) AND l.in_flight IS NULL
    ORDER BY l.id FOR UPDATE OF l
), moved AS (
    UPDATE task_lanes l SET partition = task_partition_v1(l.id, (SELECT partitions FROM task_layout))
    FROM away a WHERE l.id = a.id
    RETURNING l.id
)
SELECT (SELECT max(id) FROM batch) AS last, (SELECT count(*) FROM moved)::integer AS moved;

-- name: lock_lanes
-- Waits until all transactions that write lanes have ended, and lets none begin until this one ends. A registration that
-- waits here reads afterwards where new lanes go.
LOCK TABLE task_lanes IN SHARE MODE;

-- name: patience
-- Of the lock: while it is waited for, nothing else can write lanes.
SET LOCAL lock_timeout = '1s';

-- name: left_behind
-- Whether lanes are left in partitions that are given up, and whether one of them can be moved.
SELECT coalesce(bool_or(l.waits), false) AS movable, count(l.waits) > 0 AS some
FROM task_layout y JOIN task_partitions p ON p.partition >= y.partitions CROSS JOIN task_queues q CROSS JOIN LATERAL (
    (SELECT true AS waits FROM task_lanes WHERE queue = q.name AND partition = p.partition AND ready_at IS NOT NULL LIMIT 1)
    UNION ALL
    (SELECT false FROM task_lanes WHERE queue = q.name AND partition = p.partition AND in_flight IS NOT NULL LIMIT 1)
) AS l;

-- name: lock_layout
-- Keeps the layout as it is until the transaction ends. No row: another number of partitions is wanted, or lanes do not go
-- to the wanted ones yet.
SELECT true FROM task_layout WHERE partitions = wanted AND wanted = $1 FOR UPDATE;

-- name: surplus
-- Whether owners share partitions to which no lane goes.
SELECT EXISTS (SELECT FROM task_layout y JOIN task_partitions p ON p.partition >= y.partitions);

-- name: disable_failing
-- Owners no longer share the partitions to which no lane goes.
DELETE FROM task_partitions p USING task_layout y WHERE p.partition >= y.partitions;

-- name: settle
-- The change is done.
UPDATE task_layout SET settled = true;

-- name: notify
-- Owners look for lanes that came to them.
SELECT pg_notify('tasks', '');
