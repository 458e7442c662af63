-- name: jobs
-- Waiting and ready jobs by state; served by the partial index of jobs that are not at their end.
SELECT state, count(*)::int AS amount FROM jobs
WHERE state IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH') GROUP BY state;

-- name: runs
-- Runs that have not ended, by state; served by the partial index of active runs.
SELECT state, count(*)::int AS amount FROM runs
WHERE state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED') GROUP BY state;

-- name: schedules
-- Existing schedules, by whether they are enabled.
SELECT enabled, count(*)::int AS amount FROM schedules WHERE deleted_at IS NULL GROUP BY enabled;

-- name: single
-- What is one number each: control records not yet in the log, ticks and wake-ups overdue at $1, since when the first
-- of them is, shards with a living owner.
SELECT (SELECT count(*) FROM outbox)::int AS outbox,
       (SELECT count(*) FROM timers WHERE due_at < $1)::int AS ticks,
       (SELECT count(*) FROM wakes WHERE due_at < $1)::int AS wakes,
       least((SELECT min(due_at) FROM timers), (SELECT min(due_at) FROM wakes)) AS first_due,
       (SELECT count(*) FROM leases WHERE name LIKE 'shard-%' AND expires_at > now())::int AS shards;

-- name: positions
-- How far each partition of the topics stored as rows is stored.
SELECT topic, partition, position FROM intake_positions;

-- name: verdicts
-- How often each verdict was given, of all time; late ones by policy.
SELECT verdict, late, sum(total)::bigint AS amount FROM verdict_totals GROUP BY verdict, late;

-- name: queues
-- Of each queue, each counted up to $2: lanes in flight; lanes that are ready at $1, and since when the first is. Those of
-- queues for workers are staged.
SELECT q.name, q.policy -> 'target' ->> 'type' = 'worker' AS staged,
    (SELECT count(*) FROM (SELECT FROM task_lanes l WHERE l.queue = q.name AND l.in_flight IS NOT NULL LIMIT $2) AS started)
        AS in_flight,
    (SELECT count(*) FROM (
        SELECT FROM generate_series(0, 15) AS p (partition) JOIN task_lanes l
            ON l.queue = q.name AND l.partition = p.partition AND l.ready_at <= $1::timestamptz
        LIMIT $2
    ) AS ready) AS due,
    (SELECT min(first.ready_at) FROM generate_series(0, 15) AS p (partition) CROSS JOIN LATERAL (
        SELECT l.ready_at FROM task_lanes l WHERE l.queue = q.name AND l.partition = p.partition AND l.ready_at IS NOT NULL
        ORDER BY l.ready_at LIMIT 1
    ) AS first) AS ready_at
FROM task_queues q;

-- name: stuck
-- Lanes whose head has failed and waits for its next attempt, by queue; counted up to a limit.
SELECT queue, count(*)::int AS amount FROM (SELECT queue FROM tasks WHERE state = 'RETRYING' AND failures > 0 LIMIT $1) t
GROUP BY queue;
