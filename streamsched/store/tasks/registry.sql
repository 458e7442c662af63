-- Tasks for people: lists, reasons and commands. Commands lock the lane before the task, as registrations do.

-- name: live
-- Live tasks, by id.
SELECT t.id, t.queue, t.lane, t.key, t.state, t.due_at, t.next_at, t.generation, t.fired, t.failures, t.losses,
    t.interruptions, t.options, octet_length(t.data) AS bytes, t.created_at, t.error, t.attempts,
    EXISTS (SELECT FROM task_lanes l WHERE l.id = t.lane_id AND l.in_flight = t.id AND l.generation = t.generation)
        AS in_flight
FROM tasks t WHERE t.id = ANY($1::text[]);

-- name: ends
-- Ends of a task and of its ticks, newest first.
SELECT at, id, queue, lane, key, state, final, due_at, record FROM tasks_history WHERE id = $1
ORDER BY at DESC LIMIT $2;

-- name: page
-- Live tasks of a queue by due time and id, after ($2, $3).
SELECT id FROM tasks WHERE queue = $1 AND (due_at, id) > ($2::timestamptz, $3::text) ORDER BY due_at, id LIMIT $4;

-- name: lane_page
-- The same of a lane.
SELECT id FROM tasks WHERE lane_id = $1 AND (due_at, id) > ($2::timestamptz, $3::text) ORDER BY due_at, id LIMIT $4;

-- name: scheduled
-- Live tasks of a queue that are due before $3, by due time, lane and key, from ($2, $4, $5) on.
SELECT id FROM tasks
WHERE queue = $1 AND due_at >= $2::timestamptz AND due_at < $3::timestamptz
    AND (due_at, lane COLLATE "C", key COLLATE "C") >= ($2::timestamptz, $4::text, $5::text)
ORDER BY due_at, lane COLLATE "C", key COLLATE "C" LIMIT $6;

-- name: data
-- The data of live tasks.
SELECT id, data FROM tasks WHERE id = ANY($1::text[]);

-- name: ended_page
-- Ended tasks and ticks of a queue, newest first, before ($2, $3).
SELECT at, id, queue, lane, key, state, final, due_at, record FROM tasks_history
WHERE queue = $1 AND (at, id) < ($2::timestamptz, $3::text)
ORDER BY at DESC, id DESC LIMIT $4;

-- name: head
-- The task that is in flight in a lane, else its head; and how many tasks it has, counted up to a limit.
SELECT l.partition, t.id, t.key, t.state, t.next_at, t.failures, t.losses, t.error,
    coalesce(l.in_flight = t.id AND l.generation = t.generation, false) AS in_flight,
    (SELECT count(*) FROM (SELECT FROM tasks c WHERE c.lane_id = t.lane_id LIMIT $2) AS counted) AS waiting
FROM tasks t LEFT JOIN task_lanes l ON l.id = t.lane_id
WHERE t.id = coalesce(
    (SELECT l.in_flight FROM task_lanes l JOIN tasks f ON f.id = l.in_flight AND f.generation = l.generation
        WHERE l.id = $1),
    (SELECT h.id FROM tasks h WHERE h.lane_id = $1 ORDER BY (h.state = 'WAITING'), h.due_at, h.key LIMIT 1)
);

-- name: partition
-- Where a lane without tasks would go.
SELECT task_partition_v1($1, partitions) FROM task_layout;

-- name: before
-- How many tasks of its lane go before a task, counted up to a limit.
SELECT count(*) FROM (
    SELECT FROM tasks o WHERE o.lane_id = $1
        AND ((o.state = 'WAITING'), o.due_at, o.key) < ($2::boolean, $3::timestamptz, $4::text) LIMIT $5
) AS counted;

-- name: lane_of
-- The lane of a task.
SELECT lane_id FROM tasks WHERE id = $1;

-- name: lock_lane
-- Keeps the lane and its tasks as they are until the transaction ends.
SELECT FROM task_lanes WHERE id = $1 FOR UPDATE;

-- name: end
-- Moves a task to the history.
WITH gone AS (DELETE FROM tasks WHERE id = $1 RETURNING *)
INSERT INTO tasks_history (at, id, queue, lane, key, state, final, due_at, record)
SELECT $2::timestamptz, id, queue, lane, key, $3, true, due_at,
    jsonb_build_object('generation', generation, 'plannedAt', planned_at, 'fired', fired, 'failures', failures,
        'losses', losses, 'interruptions', interruptions, 'options', options, 'bytes', octet_length(data), 'createdAt', created_at,
        'reason', $4::text, 'attempts', attempts)
FROM gone;

-- name: move
-- Another due time.
UPDATE tasks SET due_at = $2::timestamptz, next_at = $2::timestamptz WHERE id = $1;

-- name: check_lane
-- Its head may have changed: the lane is checked now, unless it is in flight.
UPDATE task_lanes SET ready_at = $2::timestamptz WHERE id = $1 AND in_flight IS NULL;
