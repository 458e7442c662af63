-- name: ensure
-- Creates clusters and gates on first use; sorted, so that concurrent creations do not deadlock.
WITH asked AS (
    SELECT cluster, terms::jsonb AS terms FROM unnest($1::text[], $2::text[]) AS n (cluster, terms)
), made AS (
    INSERT INTO clusters (name) SELECT DISTINCT cluster FROM asked ORDER BY cluster ON CONFLICT DO NOTHING
)
INSERT INTO gates (cluster, terms) SELECT DISTINCT cluster, terms FROM asked ORDER BY cluster, terms ON CONFLICT DO NOTHING;

-- name: lock
-- Gates with the state of their clusters; the holder of these locks admits runs through them.
SELECT g.terms, g.open, g.since, g.at, g.started, c.reading, c.failed, c.failing
FROM gates g JOIN clusters c ON c.name = g.cluster
WHERE (g.cluster, g.terms) IN (SELECT cluster, terms::jsonb FROM unnest($1::text[], $2::text[]) AS n (cluster, terms))
ORDER BY g.cluster, g.terms
FOR UPDATE OF g;

-- name: peek
-- The same without locks.
SELECT g.terms, g.open, g.since, g.at, g.started, c.reading, c.failed, c.failing
FROM gates g JOIN clusters c ON c.name = g.cluster
WHERE (g.cluster, g.terms) IN (SELECT cluster, terms::jsonb FROM unnest($1::text[], $2::text[]) AS n (cluster, terms));

-- name: pass
-- Runs admitted through these gates.
UPDATE gates g SET started = g.started + n.runs
FROM unnest($1::text[], $2::text[], $3::integer[]) AS n (cluster, terms, runs)
WHERE g.cluster = n.cluster AND g.terms = n.terms::jsonb;

-- name: leave
-- Removes decided jobs from the queues of gates; the decision may queue them again.
DELETE FROM gate_waits WHERE job = ANY($1::text[]);

-- name: queue
-- Jobs that wait for a gate, woken in the order of their satisfactions. Notifies that a reading is wanted.
WITH queued AS (
    INSERT INTO gate_waits (job, cluster, terms, satisfied_at)
    SELECT n.job, n.cluster, n.terms::jsonb, j.satisfied_at
    FROM unnest($1::text[], $2::text[], $3::text[]) AS n (job, cluster, terms) JOIN jobs j ON j.id = n.job
    RETURNING job
)
SELECT pg_notify('probes', '') FROM queued LIMIT 1;

-- name: wanted
-- Clusters with waiting jobs whose reading is old and which are not reserved; reserves them for the caller.
UPDATE clusters SET asked_until = $3
WHERE name IN (
    SELECT name FROM clusters c
    WHERE (c.at IS NULL OR c.at <= $2) AND c.asked_until <= $1 AND EXISTS (SELECT FROM gate_waits w WHERE w.cluster = c.name)
    ORDER BY name
    FOR UPDATE SKIP LOCKED
)
RETURNING name;

-- name: next_due
-- When the next cluster with waiting jobs is to be read; $1: the maximum age of a reading.
SELECT min(greatest(coalesce(c.at + $1::interval, timestamptz 'epoch'), c.asked_until)) FROM clusters c
WHERE EXISTS (SELECT FROM gate_waits w WHERE w.cluster = c.name);

-- name: read
-- A reading.
UPDATE clusters SET reading = $2::jsonb, at = $3, failed = NULL, failing = NULL, asked_until = timestamptz 'epoch' WHERE name = $1;

-- name: gates
-- Locks the gates of a cluster for an update.
SELECT terms, open, since FROM gates WHERE cluster = $1 ORDER BY cluster, terms FOR UPDATE;

-- name: turn
-- The state of a gate after a reading.
UPDATE gates SET open = $3, since = $4, at = $5, started = 0 WHERE cluster = $1 AND terms = $2::jsonb;

-- name: failed
-- A failed reading. The cluster is read again when the reservation ends.
UPDATE clusters SET failed = $2, failing = coalesce(failing, $3) WHERE name = $1;

-- name: wake
-- Wakes the first jobs that wait for a gate; a row for each. Under the gate's lock, so no decision is concurrent.
WITH first AS (
    SELECT w.job FROM gate_waits w JOIN jobs j ON j.id = w.job
    WHERE w.cluster = $1 AND w.terms = $2::jsonb AND j.state = 'PENDING_CONSTRAINT'
    ORDER BY w.satisfied_at, w.job
    LIMIT $3
    FOR UPDATE OF j SKIP LOCKED
), woken AS (
    UPDATE jobs SET next_check_at = timestamptz 'epoch' WHERE id IN (SELECT job FROM first) RETURNING id
)
SELECT pg_notify('launcher', '') FROM woken;

-- name: forget
-- Rows of jobs that no longer wait.
DELETE FROM gate_waits WHERE job IN (
    SELECT w.job FROM gate_waits w LEFT JOIN jobs j ON j.id = w.job
    WHERE j.id IS NULL OR j.state <> 'PENDING_CONSTRAINT'
    LIMIT 10000
);

-- name: list
-- Clusters that a job has waited for.
SELECT c.name, c.reading, c.at, c.failed, c.failing,
    (SELECT count(*) FROM gate_waits w WHERE w.cluster = c.name) AS waiting
FROM clusters c ORDER BY c.name;

-- name: list_gates
-- Every gate, and how many jobs it holds.
SELECT g.terms, g.open, g.since, g.at, g.started, c.reading, c.failed, c.failing, g.cluster,
    (SELECT count(*) FROM gate_waits w WHERE w.cluster = g.cluster AND w.terms = g.terms) AS waiting
FROM gates g JOIN clusters c ON c.name = g.cluster ORDER BY g.cluster, g.terms;
