-- Room for the processes of runs: domain/constraints/process_room.py. `$1`: a kind of process. The expressions are those of
-- the indexes runs_wait_for_room and runs_in_room.

-- name: lock
-- The holder of this lock admits jobs whose runs need a process.
SELECT pg_advisory_xact_lock(hashtextextended('room for processes', 0));

-- name: launchers
-- The launchers that say how many processes they have places for.
SELECT regexp_replace(runner, ':[^:]*:[^:]*$', '') AS host, host_places, cluster_places FROM launchers
WHERE expires_at > now() AND host_places IS NOT NULL
ORDER BY runner;

-- name: held
-- How many processes run, or are being started, on these hosts (none: on all), by share.
SELECT split_part(program, '.', 1) AS namespace, coalesce(pool, '') AS pool, count(*) AS held FROM runs
WHERE state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED') AND executable ->> 'type' NOT IN ('http', 'publish', 'enqueue')
    AND (state <> 'PENDING' OR spawns > 0)
    AND (CASE WHEN executable ->> 'deploy_mode' = 'cluster' THEN 'cluster' ELSE 'host' END) = $1
    AND CASE
        WHEN state = 'PENDING' THEN spawn_at > coalesce($2::timestamptz, now()) AND spawn_at < 'infinity'
        ELSE cardinality($3::text[]) = 0 OR regexp_replace(runner, ':[^:]*:[^:]*$', '') = ANY($3::text[])
    END
GROUP BY 1, 2;

-- name: any_pending
-- Whether a run wants a process now; none that $3 processes did not claim.
SELECT EXISTS (
    SELECT FROM runs
    WHERE state = 'PENDING' AND executable ->> 'type' NOT IN ('http', 'publish', 'enqueue') AND spawn_at < 'infinity'
        AND (CASE WHEN executable ->> 'deploy_mode' = 'cluster' THEN 'cluster' ELSE 'host' END) = $1
        AND spawn_at <= $2 AND spawns < $3
);

-- name: pending
-- The first runs of each share that want a process now, at most $4 of each; none that $3 processes did not claim.
WITH RECURSIVE shares AS (
    (SELECT split_part(program, '.', 1) AS namespace, coalesce(pool, '') AS pool FROM runs
    WHERE state = 'PENDING' AND executable ->> 'type' NOT IN ('http', 'publish', 'enqueue') AND spawn_at < 'infinity'
        AND (CASE WHEN executable ->> 'deploy_mode' = 'cluster' THEN 'cluster' ELSE 'host' END) = $1
    ORDER BY split_part(program, '.', 1), coalesce(pool, '')
    LIMIT 1)
    UNION ALL
    SELECT following.* FROM shares CROSS JOIN LATERAL (
        SELECT split_part(program, '.', 1) AS namespace, coalesce(pool, '') AS pool FROM runs
        WHERE state = 'PENDING' AND executable ->> 'type' NOT IN ('http', 'publish', 'enqueue') AND spawn_at < 'infinity'
            AND (CASE WHEN executable ->> 'deploy_mode' = 'cluster' THEN 'cluster' ELSE 'host' END) = $1
            AND (split_part(program, '.', 1), coalesce(pool, '')) > (shares.namespace, shares.pool)
        ORDER BY split_part(program, '.', 1), coalesce(pool, '')
        LIMIT 1
    ) AS following
)
SELECT shares.namespace, shares.pool, first.turn_at, first.id FROM shares CROSS JOIN LATERAL (
    SELECT coalesce(turn_at, created_at) AS turn_at, id FROM runs
    WHERE state = 'PENDING' AND executable ->> 'type' NOT IN ('http', 'publish', 'enqueue') AND spawn_at < 'infinity'
        AND (CASE WHEN executable ->> 'deploy_mode' = 'cluster' THEN 'cluster' ELSE 'host' END) = $1
        AND split_part(program, '.', 1) = shares.namespace AND coalesce(pool, '') = shares.pool
        AND spawn_at <= coalesce($2::timestamptz, now()) AND spawns < $3
    ORDER BY coalesce(turn_at, created_at), id
    LIMIT $4
) AS first;

-- name: waiting
-- The first jobs of each share that wait for room, at most $2 of each.
WITH RECURSIVE shares AS (
    (SELECT namespace, pool FROM room_waits WHERE kind = $1 ORDER BY namespace, pool LIMIT 1)
    UNION ALL
    SELECT following.* FROM shares CROSS JOIN LATERAL (
        SELECT namespace, pool FROM room_waits WHERE kind = $1 AND (namespace, pool) > (shares.namespace, shares.pool)
        ORDER BY namespace, pool
        LIMIT 1
    ) AS following
)
SELECT shares.namespace, shares.pool, first.turn_at, first.id FROM shares CROSS JOIN LATERAL (
    SELECT w.turn_at, w.job AS id FROM room_waits w JOIN jobs j ON j.id = w.job
    WHERE w.kind = $1 AND w.namespace = shares.namespace AND w.pool = shares.pool AND j.state = 'PENDING_CONSTRAINT'
    ORDER BY w.turn_at, w.job
    LIMIT $2
) AS first;

-- name: served
-- When the shares of these namespaces last got a place.
SELECT namespace, pool, served_at FROM room_shares WHERE kind = $1 AND namespace = ANY($2::text[]);

-- name: claim
-- Those of these PENDING runs that still want a process; each is taken by one launcher, which starts it after this commit.
UPDATE runs SET spawns = spawns + 1,
    spawn_at = ($3::timestamptz[])[spawns + 1] + (($3::timestamptz[])[spawns + 1] - $2) * ($4::float8 * random())
WHERE id IN (
    SELECT id FROM runs
    WHERE id = ANY($1::text[]) AND state = 'PENDING' AND spawn_at <= $2 AND spawns < cardinality($3::timestamptz[])
    FOR UPDATE SKIP LOCKED
)
RETURNING id, spawns, split_part(program, '.', 1) AS namespace, coalesce(pool, '') AS pool;

-- name: serve
-- These shares got a place; sorted, so that concurrent launchers do not deadlock.
INSERT INTO room_shares (kind, namespace, pool, served_at)
SELECT $1, namespace, pool, max(served_at) FROM unnest($2::text[], $3::text[], $4::timestamptz[])
    AS n (namespace, pool, served_at)
GROUP BY namespace, pool ORDER BY namespace, pool
ON CONFLICT (kind, namespace, pool) DO UPDATE SET served_at = greatest(room_shares.served_at, excluded.served_at);

-- name: kinds
-- The kinds of process for which jobs wait.
SELECT kind FROM unnest($1::text[]) AS kind WHERE EXISTS (SELECT FROM room_waits w WHERE w.kind = kind.kind);

-- name: wake
-- Wakes the first waiting jobs of each share, as many as it has places; a job locked by another transaction is being decided
-- or ended.
WITH first AS (
    SELECT q.job FROM unnest($2::text[], $3::text[], $4::bigint[]) AS n (namespace, pool, places) CROSS JOIN LATERAL (
        SELECT w.job FROM room_waits w JOIN jobs j ON j.id = w.job
        WHERE w.kind = $1 AND w.namespace = n.namespace AND w.pool = n.pool AND j.state = 'PENDING_CONSTRAINT'
        ORDER BY w.turn_at, w.job
        LIMIT n.places
    ) AS q
), idle AS MATERIALIZED (
    SELECT id FROM jobs
    WHERE id = ANY(ARRAY(SELECT job FROM first)) AND state = 'PENDING_CONSTRAINT'
        AND next_check_at IS DISTINCT FROM timestamptz 'epoch'
    FOR UPDATE SKIP LOCKED
), woken AS (
    UPDATE jobs SET next_check_at = timestamptz 'epoch' WHERE id = ANY(ARRAY(SELECT id FROM idle)) RETURNING id
)
SELECT pg_notify('launcher', '') FROM woken LIMIT 1;

-- name: leave
-- Decided jobs wait for room no more; the decision may let them wait again.
DELETE FROM room_waits WHERE job = ANY($1::text[]);

-- name: enter
-- Jobs that lack only a place for their process.
INSERT INTO room_waits (job, kind, namespace, pool, turn_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[]);

-- name: of_job
-- The place for which a job waits.
SELECT kind, namespace, pool, turn_at FROM room_waits WHERE job = $1;

-- name: of_run
-- The kind of process that a PENDING run wants now; no row of another.
SELECT CASE WHEN executable ->> 'deploy_mode' = 'cluster' THEN 'cluster' ELSE 'host' END AS kind FROM runs
WHERE id = $1 AND state = 'PENDING' AND executable ->> 'type' NOT IN ('http', 'publish', 'enqueue') AND spawn_at <= now();

-- name: forget_waits
-- Rows of jobs that no longer wait.
DELETE FROM room_waits WHERE job IN (
    SELECT w.job FROM room_waits w JOIN jobs j ON j.id = w.job WHERE j.state <> 'PENDING_CONSTRAINT' LIMIT 10000
);

-- name: forget_shares
-- Shares that got no place for a day.
DELETE FROM room_shares WHERE served_at < $1::timestamptz - interval '1 day';
