-- Registers tasks. Lanes are locked first, in the order of their ids, so that nothing else changes their tasks until the
-- transaction ends; what is known of a task is read afterwards.

-- name: lock_lanes
-- Makes the lanes that are missing and locks all. A lane is checked when the earliest of the new tasks is due. One that
-- is there stays in its partition: lanes are moved by `partitions.sql`.
INSERT INTO task_lanes (id, partition, queue, name, ready_at)
SELECT id, task_partition_v1(id, (SELECT partitions FROM task_layout)), queue, name, ready_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[]) AS given (id, queue, name, ready_at)
ORDER BY id
ON CONFLICT (id) DO UPDATE SET ready_at = CASE
    WHEN task_lanes.in_flight IS NULL THEN least(task_lanes.ready_at, excluded.ready_at)
END;

-- name: known
-- The live tasks of these ids, and the last end of each after a time.
SELECT given.id, t.state, t.generation,
    EXISTS (SELECT FROM task_lanes l WHERE l.id = t.lane_id AND l.in_flight = t.id AND l.generation = t.generation)
        AS in_flight,
    (SELECT max(h.at) FROM tasks_history h WHERE h.id = given.id AND h.at > given.since AND h.final) AS ended_at
FROM unnest($1::text[], $2::timestamptz[]) AS given (id, since)
LEFT JOIN tasks t USING (id);

-- name: store
-- Stores tasks, in place of those that have the same id. Each has a new generation.
INSERT INTO tasks (id, lane_id, queue, lane, key, state, due_at, planned_at, next_at, generation, options, data,
    content_type, created_at)
SELECT id, lane_id, queue, lane, key, 'WAITING', due_at, due_at, due_at, nextval('task_generations'), options::jsonb, data,
    content_type, created_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::text[], $8::bytea[],
    $9::text[], $10::timestamptz[]) AS given (id, lane_id, queue, lane, key, due_at, options, data, content_type, created_at)
ON CONFLICT (id) DO UPDATE SET state = 'WAITING', due_at = excluded.due_at, planned_at = excluded.planned_at,
    next_at = excluded.next_at, generation = excluded.generation, fired = 0, failures = 0, losses = 0, interruptions = 0,
    skipped = 0, unhandled = 0,
    options = excluded.options, data = excluded.data, content_type = excluded.content_type,
    created_at = excluded.created_at, error = '', attempts = '[]'
RETURNING id, generation;

-- name: notify
-- Wakes the owners when the transaction ends.
SELECT pg_notify('tasks', '');
