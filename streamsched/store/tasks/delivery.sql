-- What the owners of partitions do. Every write is guarded by the epoch of the partition, whose row it locks: once a
-- later owner has fenced, no write of a former one takes effect. Order of locks: queue, partitions, lanes by id, tasks.
--
-- A lane is in the partition of its row. It changes that only while it is not in flight (`partitions.sql`), and what is
-- read of it is checked again once it is locked, so no owner starts a lane that has left its partition. Whenever a lane
-- is freed, it goes to the partition where a new one would go.
--
-- `= ANY(ARRAY(SELECT …))`: the rows of a batch are read by their index, however many others the planner believes there are.

-- name: fence
-- Takes partitions under newer epochs, or again under the same; those of later owners are left out.
UPDATE task_partitions p SET epoch = given.epoch
FROM unnest($1::integer[], $2::bigint[]) AS given (partition, epoch)
WHERE p.partition = given.partition AND p.epoch <= given.epoch
RETURNING p.partition;

-- name: recover
-- What is in flight and not held by this owner waits as the head of its lane again, and is tried at once.
WITH freed AS MATERIALIZED (
    SELECT id, in_flight, generation FROM task_lanes
    WHERE partition = ANY($1::integer[]) AND in_flight IS NOT NULL AND NOT EXISTS (
        SELECT FROM unnest($3::text[], $4::bigint[], $5::timestamptz[]) AS held (task, generation, started_at)
        WHERE held.task = task_lanes.in_flight AND held.generation = task_lanes.generation
            AND held.started_at = task_lanes.started_at
    )
    ORDER BY id FOR UPDATE
), back AS (
    UPDATE tasks t SET state = 'RETRYING', interruptions = t.interruptions + 1, next_at = greatest(t.due_at, $2::timestamptz)
    FROM freed f WHERE t.id = f.in_flight AND t.generation = f.generation
)
UPDATE task_lanes l SET in_flight = NULL, generation = NULL, started_at = NULL, ready_at = $2::timestamptz,
    partition = task_partition_v1(l.id, (SELECT partitions FROM task_layout))
WHERE l.id = ANY(ARRAY(SELECT id FROM freed))
RETURNING l.id;

-- name: next_ready
-- For each of these queues, when the first lane in these partitions is to be checked.
SELECT q.name, min(l.ready_at) AS ready_at
FROM unnest($1::text[]) AS q (name) CROSS JOIN unnest($2::integer[]) AS p (partition) CROSS JOIN LATERAL (
    SELECT ready_at FROM task_lanes
    WHERE queue = q.name AND partition = p.partition AND ready_at IS NOT NULL
    ORDER BY ready_at LIMIT 1
) AS l
GROUP BY q.name ORDER BY ready_at;

-- name: lock_queue
-- Keeps the queue as it is until the transaction ends.
SELECT paused, version, tokens, tokens_at FROM task_queues WHERE name = $1 FOR SHARE;

-- name: lock_limited_queue
-- The same, and no other owner starts tasks of the queue meanwhile.
SELECT paused, version, tokens, tokens_at FROM task_queues WHERE name = $1 FOR NO KEY UPDATE;

-- name: in_flight
-- How many tasks of the queue are in flight, counted up to a limit.
SELECT count(*) FROM (SELECT FROM task_lanes WHERE queue = $1 AND in_flight IS NOT NULL LIMIT $2) AS started;

-- name: take_tokens
-- Sets the level of the rate's bucket.
UPDATE task_queues SET tokens = $2::double precision, tokens_at = $3::timestamptz WHERE name = $1;

-- name: lock_due
-- The lanes of own partitions that are due, locked; at most $5, and about twice its even share in one partition, so that
-- what is read does not grow with the number of partitions. One that another transaction holds is left for later.
WITH own AS MATERIALIZED (
    SELECT p.partition
    FROM task_partitions p JOIN unnest($1::integer[], $2::bigint[]) AS given (partition, epoch) USING (partition, epoch)
    ORDER BY p.partition FOR SHARE OF p
), due AS MATERIALIZED (
    SELECT each.id FROM own CROSS JOIN LATERAL (
        SELECT l.id, l.ready_at FROM task_lanes l
        WHERE l.queue = $3 AND l.partition = own.partition AND l.ready_at <= $4::timestamptz
        ORDER BY l.ready_at LIMIT 8 + 2 * $5::bigint / cardinality($1::integer[])
    ) AS each
    ORDER BY each.ready_at, each.id LIMIT $5::bigint
)
SELECT l.id FROM task_lanes l JOIN own USING (partition)
WHERE l.id = ANY(ARRAY(SELECT id FROM due)) AND l.ready_at <= $4::timestamptz
ORDER BY l.id FOR UPDATE OF l SKIP LOCKED;

-- name: start
-- Starts the heads of locked lanes that are due, as far as their data fits into $3 bytes, at least one. A lane whose head
-- is due later is checked then; one without tasks is deleted.
WITH heads AS MATERIALIZED (
    SELECT given.id AS lane_id, h.id AS task, h.next_at, h.generation, h.bytes
    FROM unnest($1::text[]) AS given (id) LEFT JOIN LATERAL (
        SELECT t.id, t.next_at, t.generation, octet_length(t.data) AS bytes FROM tasks t WHERE t.lane_id = given.id
        ORDER BY (t.state = 'WAITING'), t.due_at, t.key LIMIT 1
    ) AS h ON true
), fitting AS MATERIALIZED (
    SELECT lane_id, task, generation FROM (
        SELECT *, row_number() OVER due AS number, sum(bytes) OVER due AS bytes_so_far
        FROM heads WHERE next_at <= $2::timestamptz WINDOW due AS (ORDER BY next_at, lane_id)
    ) AS numbered
    WHERE number = 1 OR bytes_so_far <= $3::bigint
), started AS (
    UPDATE task_lanes l SET in_flight = f.task, generation = f.generation, started_at = $2::timestamptz, ready_at = NULL
    FROM fitting f WHERE l.id = ANY(ARRAY(SELECT lane_id FROM fitting)) AND l.id = f.lane_id
    RETURNING l.partition, f.task
), later AS (
    UPDATE task_lanes l SET ready_at = h.next_at FROM heads h WHERE l.id = h.lane_id AND h.next_at > $2::timestamptz
), empty AS (
    DELETE FROM task_lanes l USING heads h WHERE l.id = h.lane_id AND h.task IS NULL
)
SELECT t.id, t.queue, t.lane, t.lane_id, s.partition, t.key, t.generation, t.due_at, t.planned_at, t.fired, t.failures,
    t.losses, t.options, t.data, t.content_type
FROM started s JOIN tasks t ON t.id = s.task;

-- name: outdated
-- Which of these tasks in flight ended by hand or were registered again: their delivery need not go on.
SELECT given.task, given.generation FROM unnest($1::text[], $2::bigint[]) AS given (task, generation)
WHERE NOT EXISTS (SELECT FROM tasks t WHERE t.id = given.task AND t.generation = given.generation);

-- name: lock_ended
-- The lanes of ended attempts that are still in flight for this owner, by the same start, locked.
WITH own AS MATERIALIZED (
    SELECT p.partition
    FROM task_partitions p JOIN unnest($1::integer[], $2::bigint[]) AS given (partition, epoch) USING (partition, epoch)
    ORDER BY p.partition FOR SHARE OF p
)
SELECT l.id FROM unnest($3::text[], $4::text[], $5::bigint[], $6::timestamptz[])
    AS given (lane_id, task, generation, started_at)
JOIN task_lanes l ON l.id = given.lane_id AND l.in_flight = given.task AND l.generation = given.generation
    AND l.started_at = given.started_at
JOIN own ON own.partition = l.partition
ORDER BY l.id FOR UPDATE OF l;

-- name: end_tasks
-- Moves ended tasks to the history. A task that ended by hand or was registered again stays as it is.
WITH gone AS (
    DELETE FROM tasks t
    USING unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::timestamptz[], $6::text[])
        AS given (id, generation, state, reason, at, attempt)
    WHERE t.id = ANY(ARRAY(SELECT unnest($1::text[]))) AND t.id = given.id AND t.generation = given.generation
    RETURNING given.at, given.state AS ended, given.reason, given.attempt, t.*
)
INSERT INTO tasks_history (at, id, queue, lane, key, state, final, due_at, record)
SELECT at, id, queue, lane, key, ended, true, due_at,
    jsonb_build_object('generation', generation, 'plannedAt', planned_at, 'fired', fired, 'failures', failures,
        'losses', losses, 'interruptions', interruptions, 'options', options, 'bytes', octet_length(data), 'createdAt', created_at,
        'reason', reason, 'attempts', (attempts || attempt::jsonb))
FROM gone
RETURNING id;

-- name: retry_tasks
-- The next attempt of tasks; they stay the heads of their lanes. The latest 20 attempts are kept.
UPDATE tasks t SET state = 'RETRYING', next_at = greatest(t.due_at, given.next_at), planned_at = given.planned_at,
    failures = given.failures, losses = given.losses, skipped = t.skipped + given.skipped,
    interruptions = t.interruptions + (given.failures = t.failures AND given.losses = t.losses)::integer,
    error = given.reason,
    attempts = CASE WHEN jsonb_array_length(t.attempts) < 20 THEN t.attempts ELSE t.attempts - 0 END || given.attempt::jsonb
FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::integer[], $6::integer[], $7::text[],
    $8::text[], $9::bigint[]) AS given (id, generation, next_at, planned_at, failures, losses, reason, attempt, skipped)
WHERE t.id = given.id AND t.generation = given.generation;

-- name: tick_tasks
-- The next tick of recurring tasks. The tick that ended goes to the history; one that was skipped has no state.
WITH before AS MATERIALIZED (
    SELECT t.*, given.next_planned, given.next_fired, given.ended, given.reason, given.at, given.tick, given.attempt,
        given.more_skipped, given.more_unhandled
    FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::integer[], $5::text[], $6::text[], $7::timestamptz[],
        $8::timestamptz[], $9::text[], $10::bigint[], $11::integer[])
        AS given (id, generation, next_planned, next_fired, ended, reason, at, tick, attempt, more_skipped, more_unhandled)
    JOIN tasks t USING (id, generation)
), ticked AS (
    UPDATE tasks t SET state = 'WAITING', due_at = b.next_planned, planned_at = b.next_planned, next_at = b.next_planned,
        fired = b.next_fired, failures = 0, losses = 0, interruptions = 0, error = '', attempts = '[]',
        skipped = b.skipped + b.more_skipped, unhandled = b.unhandled + b.more_unhandled
    FROM before b WHERE t.id = b.id
)
INSERT INTO tasks_history (at, id, queue, lane, key, state, final, due_at, record)
SELECT at, id, queue, lane, key, ended, false, due_at,
    jsonb_build_object('generation', generation, 'plannedAt', tick, 'fired', fired, 'failures', failures,
        'losses', losses, 'interruptions', interruptions, 'options', options, 'bytes', octet_length(data), 'createdAt', created_at,
        'reason', reason, 'attempts', (attempts || attempt::jsonb))
FROM before WHERE ended <> ''
RETURNING id;

-- name: free_lanes
-- The heads of these lanes may start again, after the lanes that are due already; a lane without tasks is deleted.
WITH heads AS MATERIALIZED (
    SELECT given.id AS lane_id, (
        SELECT t.next_at FROM tasks t WHERE t.lane_id = given.id
        ORDER BY (t.state = 'WAITING'), t.due_at, t.key LIMIT 1
    ) AS next_at
    FROM unnest($1::text[]) AS given (id)
), kept AS (
    UPDATE task_lanes l SET in_flight = NULL, generation = NULL, started_at = NULL,
        ready_at = greatest(h.next_at, $2::timestamptz),
        partition = task_partition_v1(l.id, (SELECT partitions FROM task_layout))
    FROM heads h WHERE l.id = ANY(ARRAY(SELECT unnest($1::text[]))) AND l.id = h.lane_id AND h.next_at IS NOT NULL
)
DELETE FROM task_lanes l USING heads h WHERE l.id = h.lane_id AND h.next_at IS NULL;
