-- Dapr's jobs: the tasks of an app's queue. Lanes are locked before tasks, in the order of their ids, as by commands.

-- name: get
-- One job, with the planned time of its last tick.
SELECT t.id, t.key, t.data, t.state, t.due_at, t.planned_at, t.next_at, t.fired, t.failures, t.skipped, t.unhandled,
    t.created_at, t.error,
    (t.options -> 'recurrence' ->> 'until')::timestamptz AS until,
    coalesce(l.in_flight = t.id AND l.generation = t.generation, false) AS in_flight, last.due_at AS last_at
FROM tasks t LEFT JOIN task_lanes l ON l.id = t.lane_id LEFT JOIN LATERAL (
    SELECT h.due_at FROM tasks_history h
    WHERE h.id = t.id AND (h.record ->> 'generation')::bigint = t.generation
    ORDER BY h.at DESC LIMIT 1
) AS last ON t.fired > 0
WHERE t.id = $1;

-- name: list
-- The jobs of a queue by prefix of their names; of the last tick only whether there was one.
SELECT t.id, t.key, t.data, t.state, t.due_at, t.planned_at, t.next_at, t.fired, t.failures, t.skipped, t.unhandled,
    t.created_at, t.error,
    (t.options -> 'recurrence' ->> 'until')::timestamptz AS until,
    false AS in_flight, NULL::timestamptz AS last_at
FROM tasks t WHERE t.queue = $1 AND starts_with(t.key, $2) ORDER BY t.key;

-- name: some
-- Some of the jobs of a queue by prefix of their names, due first, as the index of queues has them.
SELECT id, lane_id FROM tasks WHERE queue = $1 AND starts_with(key, $2) ORDER BY due_at, id LIMIT $3;

-- name: lock_lanes
-- Keeps lanes and their tasks as they are until the transaction ends.
SELECT id FROM task_lanes WHERE id = ANY($1::text[]) ORDER BY id FOR UPDATE;

-- name: end
-- Moves tasks to the history.
WITH gone AS (DELETE FROM tasks WHERE id = ANY($1::text[]) RETURNING *)
INSERT INTO tasks_history (at, id, queue, lane, key, state, final, due_at, record)
SELECT $2::timestamptz, id, queue, lane, key, 'DROPPED', true, due_at,
    jsonb_build_object('generation', generation, 'plannedAt', planned_at, 'fired', fired, 'failures', failures,
        'interruptions', interruptions, 'options', options, 'bytes', octet_length(data), 'createdAt', created_at,
        'reason', $3::text, 'attempts', attempts)
FROM gone
RETURNING id;

-- name: check_lanes
-- Their heads have changed: the lanes are checked now, unless they are in flight.
UPDATE task_lanes SET ready_at = $2::timestamptz WHERE id = ANY($1::text[]) AND in_flight IS NULL;

-- name: restore
-- The counters of tasks that were just registered.
UPDATE tasks t SET planned_at = given.planned_at, next_at = greatest(t.due_at, given.next_at), fired = given.fired,
    failures = given.failures, created_at = given.created_at, skipped = given.skipped, unhandled = given.unhandled
FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[], $4::integer[], $5::integer[], $6::timestamptz[],
    $7::bigint[], $8::bigint[]) AS given (id, planned_at, next_at, fired, failures, created_at, skipped, unhandled)
WHERE t.id = given.id;

-- name: stage
-- A table of this transaction for jobs that are imported.
CREATE TEMPORARY TABLE imported_jobs (position integer, lane_id text, name text, line bytea) ON COMMIT DROP;

-- name: staged
-- Those jobs in the order in which lanes are locked.
SELECT position, name, line FROM imported_jobs ORDER BY lane_id, position;
