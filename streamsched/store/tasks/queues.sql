-- Queues of tasks.

-- name: all
-- All queues; there are at most 1000.
SELECT name, policy, paused, version FROM task_queues ORDER BY name;

-- name: version
-- Changes with every change of a queue.
SELECT coalesce(max(version), 0) FROM task_queues;

-- name: get
-- One queue.
SELECT name, policy, paused, version FROM task_queues WHERE name = $1;

-- name: lock_all
-- So that the limit of their number holds: one change of a queue at a time.
SELECT pg_advisory_xact_lock(hashtextextended('task_queues', 0));

-- name: others
-- The number of other queues.
SELECT count(*) FROM task_queues WHERE name <> $1;

-- name: set
-- Stores a policy, with a full bucket.
INSERT INTO task_queues (name, policy, dedupe, changed_at)
VALUES ($1, $2::text::jsonb, $3::interval, $4::timestamptz)
ON CONFLICT (name) DO UPDATE SET policy = excluded.policy, dedupe = excluded.dedupe, changed_at = excluded.changed_at,
    version = nextval('task_generations'), tokens = NULL, tokens_at = NULL;

-- name: pause
-- Pauses or resumes; waits for owners that are about to start tasks.
UPDATE task_queues SET paused = $2::boolean, changed_at = $3::timestamptz, version = nextval('task_generations')
WHERE name = $1 AND paused <> $2::boolean;

-- name: record
-- The change, in the history.
INSERT INTO decisions (at, subject_kind, subject, action, reason) VALUES ($1::timestamptz, 'queue', $2, $3, $4);

-- name: notify
-- Wakes the owners when the transaction ends.
SELECT pg_notify('tasks', '');

-- name: counts
-- Per queue: tasks that have not ended and lanes in flight, counted up to a limit, and when the first lane is checked.
SELECT q.name,
    (SELECT count(*) FROM (SELECT FROM tasks t WHERE t.queue = q.name LIMIT $2) AS counted) AS tasks,
    (SELECT count(*) FROM (SELECT FROM task_lanes l WHERE l.queue = q.name AND l.in_flight IS NOT NULL LIMIT $2) AS counted)
        AS in_flight,
    (SELECT min(first.ready_at) FROM task_partitions p CROSS JOIN LATERAL (
        SELECT l.ready_at FROM task_lanes l WHERE l.queue = q.name AND l.partition = p.partition AND l.ready_at IS NOT NULL
        ORDER BY l.ready_at LIMIT 1
    ) AS first) AS ready_at
FROM unnest($1::text[]) AS q (name);
