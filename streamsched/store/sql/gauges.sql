-- name: jobs
-- Waiting and ready jobs by state; served by the partial index of jobs that are not at their end.
SELECT state, count(*)::int AS amount FROM jobs
WHERE state IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH') GROUP BY state;

-- name: runs
-- Runs that have not ended, by state; served by the partial index of active runs.
SELECT state, count(*)::int AS amount FROM runs
WHERE state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED') GROUP BY state;

-- name: schedules
-- Schedules that exist, by whether they listen.
SELECT enabled, count(*)::int AS amount FROM schedules WHERE deleted_at IS NULL GROUP BY enabled;

-- name: single
-- What is one number each: control records not yet in the log, ticks overdue at $1, shards with a living owner.
SELECT (SELECT count(*) FROM outbox)::int AS outbox,
       (SELECT count(*) FROM timers WHERE due_at < $1)::int AS overdue,
       (SELECT count(*) FROM leases WHERE name LIKE 'shard-%' AND expires_at > now())::int AS shards;

-- name: positions
-- How far the ready jobs of each partition of topic $1 are stored.
SELECT partition, position FROM intake_positions WHERE topic = $1;
