-- Leases of launcher processes, and the inline runs of those whose lease has expired. Expiry is judged by this server's
-- clock alone; one ten or more lease times in the future was written before the clock was set back, and has expired.
-- While that clock does not say what the caller expects (NULL: anything), none has expired: it may have jumped.

-- name: renew
-- A renewal after the expiry begins a new holding. With the places for processes.
INSERT INTO launchers AS l (runner, since, expires_at, host_places, cluster_places)
VALUES ($1, now(), now() + $2::interval, $3, $4)
ON CONFLICT (runner) DO UPDATE SET expires_at = excluded.expires_at, host_places = $3, cluster_places = $4,
    since = CASE WHEN l.expires_at <= now() OR l.since > now() THEN now() ELSE l.since END;

-- name: release
-- The row goes with the last run, and stays for the launcher that recovers the others.
WITH idle AS (
    DELETE FROM launchers WHERE runner = $1 AND NOT EXISTS (
        SELECT FROM runs WHERE runs.runner = $1 AND state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
            AND executable ->> 'type' IN ('http', 'publish', 'enqueue')
    )
    RETURNING runner
)
UPDATE launchers SET expires_at = now() WHERE runner = $1 AND NOT EXISTS (SELECT FROM idle);

-- name: expired
-- Expired leases; none for a launcher that has not held its own for one lease time: the database may have been away.
SELECT l.runner FROM launchers l
WHERE l.runner <> $1 AND (l.expires_at <= now() OR l.expires_at >= now() + 10 * $2::interval)
    AND ($3::timestamptz IS NULL OR abs(extract(epoch FROM now() - $3::timestamptz)) < 5) AND EXISTS (
    SELECT FROM launchers own WHERE own.runner = $1 AND own.since <= now() - $2::interval AND own.expires_at > now()
)
ORDER BY l.expires_at
LIMIT 100;

-- name: lock
-- The holder of this lock recovers the launcher; a renewal waits for it.
SELECT runner FROM launchers
WHERE runner = $1 AND (expires_at <= now() OR expires_at >= now() + 10 * $2::interval)
    AND ($3::timestamptz IS NULL OR abs(extract(epoch FROM now() - $3::timestamptz)) < 5)
FOR UPDATE SKIP LOCKED;

-- name: forget
-- Nothing of it is left.
DELETE FROM launchers WHERE runner = $1;

-- name: held
-- All inline runs in the hands of one launcher, in lock order, and whether each was started. PENDING ones it took and has
-- not claimed; those of a paused schedule are held back, and in no launcher's hands.
SELECT id, state IN ('RUNNING', 'SUSPENDED') AS started FROM runs
WHERE runner = $1 AND state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
    AND executable ->> 'type' IN ('http', 'publish', 'enqueue') AND spawn_at IS DISTINCT FROM 'infinity'
ORDER BY id;

-- name: requeue
-- Runs that were never started are PENDING again, before all others; nothing of theirs ended. The count of launchers that
-- took them stays, so that a run that ends its launchers comes to an end too. Deadlines of their duration begin anew.
WITH kept AS (
    SELECT id, state FROM runs WHERE id = ANY($1::text[]) AND runner = $2 AND state IN ('PENDING', 'STARTING')
    ORDER BY id FOR UPDATE
), requeued AS (
    UPDATE runs r SET state = 'PENDING', runner = NULL, spawn_at = timestamptz 'epoch', heartbeat_at = NULL,
        deadline_at = NULL, log_path = NULL
    FROM kept WHERE r.id = kept.id
    RETURNING r.id, kept.state
), recorded AS (
    INSERT INTO decisions (at, subject_kind, subject, action, reason)
    SELECT $3::timestamptz, 'run', id, 'run.requeued', $4 FROM requeued WHERE state = 'STARTING'
), unwatched AS (
    DELETE FROM deadlines d USING requeued r, runs o WHERE o.id = r.id AND d.job = o.job AND d.run = r.id
), rung AS (
    SELECT pg_notify('launcher', '') FROM requeued LIMIT 1
)
SELECT count(*) FROM requeued WHERE EXISTS (SELECT FROM rung);

-- name: lock_schedules
-- Of the jobs of these runs: a concurrent disabling waits, or is seen here.
SELECT FROM schedules
WHERE id IN (SELECT j.schedule FROM runs r JOIN jobs j ON j.id = r.job WHERE r.id = ANY($1::text[]))
ORDER BY id FOR SHARE;

-- name: started
-- Runs that are still the launcher's, locked until the transaction ends, with their schedules.
SELECT r.id, r.job, r.attempt, r.heartbeat_at, r.stop_requested, j.schedule, j.generation, s.generation AS current,
    s.admits, s.deleted_at, s.definition
FROM runs r LEFT JOIN jobs j ON j.id = r.job LEFT JOIN schedules s ON s.id = j.schedule
WHERE r.id = ANY($1::text[]) AND r.runner = $2 AND r.state IN ('RUNNING', 'SUSPENDED')
ORDER BY r.id FOR UPDATE OF r;

-- name: lose
-- Ends runs as LOST; their jobs go on with the next attempts.
UPDATE runs SET state = 'LOST', reason = $2, ended_at = $3::timestamptz WHERE id = ANY($1::text[]);

-- name: repeat
-- The next attempts, with the same programs and arguments, to be started then.
WITH made AS (
    INSERT INTO runs (id, job, attempt, program, executable, arguments, state, created_at, spawn_at, muted, pool,
        turn_at)
    SELECT n.again, r.job, r.attempt + 1, r.program, r.executable, r.arguments, 'PENDING', $3::timestamptz, n.start_at,
        r.muted, r.pool, r.turn_at
    FROM unnest($1::text[], $2::text[], $4::timestamptz[]) AS n (id, again, start_at) JOIN runs r ON r.id = n.id
    RETURNING id
)
SELECT pg_notify('launcher', '') FROM made LIMIT 1;
