-- name: first
-- The first waiting jobs of lanes. Decisions about them hold the program's lock.
SELECT n.place, q.job, q.satisfied_at, q.sequence
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY
    AS n (schedule, scope, key_hash, jobs, place) CROSS JOIN LATERAL (
        SELECT w.job, w.satisfied_at, w.sequence FROM lane_waits w JOIN jobs j ON j.id = w.job
        WHERE w.schedule = n.schedule AND w.scope = n.scope AND w.key_hash = n.key_hash
            AND j.state = 'PENDING_CONSTRAINT'
        ORDER BY w.satisfied_at, w.sequence, w.job
        LIMIT n.jobs
    ) AS q
ORDER BY n.place, q.satisfied_at, q.sequence, q.job;

-- name: leave
-- Removes decided jobs from their lanes; the decision may queue them again.
DELETE FROM lane_waits WHERE job = ANY($1::text[]) RETURNING schedule, scope, key_hash;

-- name: enter
-- Jobs that wait in a lane.
INSERT INTO lane_waits (job, schedule, scope, key_hash, satisfied_at, sequence)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::bigint[])
ON CONFLICT (job, scope) DO NOTHING;

-- name: wake
-- Wakes the first jobs of lanes that are not due already. A job locked by another transaction is being woken or ended.
WITH first AS MATERIALIZED (
    SELECT q.id FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS n (schedule, scope, key_hash, jobs)
    CROSS JOIN LATERAL (
        SELECT j.id FROM lane_waits w JOIN jobs j ON j.id = w.job
        WHERE w.schedule = n.schedule AND w.scope = n.scope AND w.key_hash = n.key_hash
            AND j.state = 'PENDING_CONSTRAINT' AND j.next_check_at IS DISTINCT FROM timestamptz 'epoch'
        ORDER BY w.satisfied_at, w.sequence, w.job
        LIMIT n.jobs
        FOR UPDATE OF j SKIP LOCKED
    ) AS q
), woken AS (
    UPDATE jobs SET next_check_at = timestamptz 'epoch' WHERE id IN (SELECT id FROM first) RETURNING id
)
SELECT pg_notify('launcher', '') FROM woken LIMIT 1;

-- name: wake_after
-- Runs ended: wakes the first job of each of their lanes for each of them, under the lock of their programs. A run of a
-- schedule without lanes reads one index entry.
WITH ended AS MATERIALIZED (
    SELECT j.schedule, j.ready ->> 'key' AS key FROM runs r JOIN jobs j ON j.id = r.job
    WHERE r.id = ANY($1::text[]) AND EXISTS (SELECT FROM lane_waits w WHERE w.schedule = j.schedule)
), freed AS MATERIALIZED (
    SELECT schedule, scope, key_hash, count(*) AS places FROM ended CROSS JOIN LATERAL (
        VALUES ('schedule', ''), ('key', md5(coalesce(key, '')))
    ) AS of_it (scope, key_hash)
    GROUP BY schedule, scope, key_hash
), first AS MATERIALIZED (
    SELECT q.id FROM freed CROSS JOIN LATERAL (
        SELECT j.id FROM lane_waits w JOIN jobs j ON j.id = w.job
        WHERE w.schedule = freed.schedule AND w.scope = freed.scope AND w.key_hash = freed.key_hash
            AND j.state = 'PENDING_CONSTRAINT' AND j.next_check_at IS DISTINCT FROM timestamptz 'epoch'
        ORDER BY w.satisfied_at, w.sequence, w.job
        LIMIT freed.places
        FOR UPDATE OF j SKIP LOCKED
    ) AS q
), woken AS (
    UPDATE jobs SET next_check_at = timestamptz 'epoch' WHERE id IN (SELECT id FROM first) RETURNING id
)
SELECT pg_notify('launcher', '') FROM woken LIMIT 1;

-- name: runs
-- The non-terminal runs of a schedule, or with a key those of the key, oldest first.
SELECT r.id FROM runs r JOIN jobs j ON j.id = r.job
WHERE r.program = $1 AND r.state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED') AND j.schedule = $2
    AND ($3::text IS NULL OR coalesce(j.ready ->> 'key', '') = $3)
ORDER BY r.created_at, r.id;

-- name: forget
-- Rows of jobs that no longer wait.
DELETE FROM lane_waits WHERE job IN (
    SELECT w.job FROM lane_waits w LEFT JOIN jobs j ON j.id = w.job
    WHERE j.id IS NULL OR j.state <> 'PENDING_CONSTRAINT'
    LIMIT 10000
);
