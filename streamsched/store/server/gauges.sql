-- name: jobs
-- Waiting and ready jobs by state; served by the partial index of jobs that are not at their end.
SELECT state AS name, count(*)::int AS amount FROM jobs
WHERE state IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH') GROUP BY state;

-- name: runs
-- Runs that have not ended, by state; served by the partial index of active runs.
SELECT state AS name, count(*)::int AS amount FROM runs
WHERE state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED') GROUP BY state;

-- name: schedules
-- Existing schedules, by whether they are enabled.
SELECT enabled, count(*)::int AS amount FROM schedules WHERE deleted_at IS NULL GROUP BY enabled;

-- name: overdue
-- What is one number each: control records not yet in the log, ticks and wake-ups overdue at $1, since when the first
-- of them is, shards with a living owner, the oldest due time of an expectation that is not judged.
SELECT (SELECT count(*) FROM outbox)::int AS outbox,
       (SELECT count(*) FROM timers WHERE due_at < $1)::int AS ticks,
       (SELECT count(*) FROM wakes WHERE due_at < $1)::int AS wakes,
       least((SELECT min(due_at) FROM timers), (SELECT min(due_at) FROM wakes)) AS first_due,
       (SELECT count(*) FROM leases WHERE name LIKE 'shard-%' AND expires_at > now())::int AS shards,
       least(
           (SELECT min(due_at) FROM expectations WHERE kind = 'dataset' AND due_at IS NOT NULL),
           (SELECT min(due_at) FROM expectations WHERE kind = 'schedule' AND due_at IS NOT NULL)
       ) AS first_expected;

-- name: verdicts
-- How often each verdict was given, of all time; late ones by policy.
SELECT verdict, late, sum(total)::bigint AS amount FROM verdict_totals GROUP BY verdict, late;

-- name: queues
-- Of each queue, each counted up to $2: lanes in flight; lanes that are ready at $1, and since when the first is; tasks that
-- were due before $3. Those of queues for workers are staged.
SELECT q.name, q.policy -> 'target' ->> 'type' = 'worker' AS staged,
    (SELECT count(*) FROM (SELECT FROM task_lanes l WHERE l.queue = q.name AND l.in_flight IS NOT NULL LIMIT $2) AS started)
        AS in_flight,
    (SELECT count(*) FROM (
        SELECT FROM task_partitions p JOIN task_lanes l
            ON l.queue = q.name AND l.partition = p.partition AND l.ready_at <= $1::timestamptz
        LIMIT $2
    ) AS ready) AS due,
    (SELECT count(*) FROM (SELECT FROM tasks t WHERE t.queue = q.name AND t.due_at < $3::timestamptz LIMIT $2) AS old) AS stale,
    (SELECT min(first.ready_at) FROM task_partitions p CROSS JOIN LATERAL (
        SELECT l.ready_at FROM task_lanes l WHERE l.queue = q.name AND l.partition = p.partition AND l.ready_at IS NOT NULL
        ORDER BY l.ready_at LIMIT 1
    ) AS first) AS ready_at
FROM task_queues q;

-- name: webhooks
-- Of each webhook, of which there are at most 100: what is in its queue, and for how many seconds nothing was accepted
-- while a delivery failed.
SELECT w.id,
    (SELECT count(*) FROM tasks t WHERE t.queue = q.name)::int AS queued,
    CASE WHEN first.due_at IS NULL OR NOT w.enabled THEN 0.0::float8 ELSE greatest(0, extract(epoch FROM $1::timestamptz - greatest(
        w.changed_at, first.due_at,
        (SELECT max(at) FROM tasks_history h WHERE h.queue = q.name AND h.state = 'SUCCEEDED')
    )))::float8 END AS failing,
    NOT w.enabled AND NOT w.by_owner AS given_up
FROM webhooks w CROSS JOIN LATERAL (SELECT 'webhook.' || w.id AS name) AS q CROSS JOIN LATERAL (
    SELECT min(due_at) AS due_at FROM tasks t WHERE t.queue = q.name AND t.state = 'RETRYING' AND t.failures > 0
) AS first
ORDER BY w.id;

-- name: missing
-- Expectations whose subject is missing and may still come, of the $1 namespaces with most of them.
SELECT split_part(id, '.', 1) AS name, count(*)::int AS amount FROM expectations WHERE open_misses > 0
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT $1;

-- name: stuck
-- Lanes whose head has failed and waits for its next attempt, by queue; counted up to a limit.
SELECT queue AS name, count(*)::int AS amount FROM (SELECT queue FROM tasks WHERE state = 'RETRYING' AND failures > 0 LIMIT $1) t
GROUP BY queue;

-- name: held
-- Of the first $1 waiting jobs: how many each type of constraint did not let start at their last check. The verdicts of a
-- check stand in the order of the schedule's constraints; beyond them are those of the program.
SELECT coalesce(s.definition -> 'constraints' -> (verdict.place - 1)::int ->> 'type', 'other') AS name, count(*)::int AS amount
FROM (SELECT schedule, waiting FROM jobs WHERE state = 'PENDING_CONSTRAINT' AND waiting IS NOT NULL LIMIT $1) AS j
    CROSS JOIN LATERAL jsonb_array_elements(j.waiting) WITH ORDINALITY AS verdict (value, place)
    LEFT JOIN schedules s ON s.id = j.schedule
WHERE verdict.value ->> 'kind' <> 'satisfied'
GROUP BY 1;

-- name: jobs_ended
-- Jobs that ended since $1 without a run, by state. Reads the table of live jobs, which ended ones leave within an hour.
SELECT state AS name, count(*)::int AS amount FROM jobs
WHERE ended_at > $1 AND state IN ('ABORTED', 'TIMED_OUT', 'LAUNCH_FAILED') GROUP BY state;

-- name: runs_ended
-- Runs that ended since $1, by program and state, of the $2 programs with most of them. As above.
WITH ended AS (
    SELECT program, state, count(*)::int AS amount FROM runs WHERE ended_at > $1 GROUP BY program, state
)
SELECT program, state, amount FROM ended
WHERE program IN (SELECT program FROM ended GROUP BY program ORDER BY sum(amount) DESC, program LIMIT $2);

-- name: shard_positions
-- Where each shard's next turn starts, as its worker reported last; not of long ago, when topics had other partitions.
SELECT shard, report -> 'positions' AS positions FROM shard_reports
WHERE reported_at > clock_timestamp() - interval '10 minutes';
