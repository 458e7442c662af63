-- Apps, programs and schedules. Locks in one order: app, program, schedules by id, timers, jobs by id (catalog.py).

-- name: create_namespace
-- Creates the namespace with its first app.
INSERT INTO namespaces (name, created_at) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: hold_app
-- A deployment locks the app until it commits: it waits for changes that share the lock, and they for it.
INSERT INTO apps (id, namespace, created_at, updated_at) VALUES ($1, $2, $3, $3)
ON CONFLICT (id) DO UPDATE SET updated_at = excluded.updated_at;

-- name: origin
-- The file of the last deployment that named one, and the highest generation of schedules that are forgotten.
SELECT coalesce(origin, '') AS origin, forgotten_generation AS forgotten FROM apps WHERE id = $1;

-- name: put_origin
-- The file of this deployment.
UPDATE apps SET origin = $2 WHERE id = $1 AND origin IS DISTINCT FROM $2;

-- name: share_app
-- A change of single schedules excludes deployments, but not changes of other schedules.
SELECT 1 FROM apps WHERE id = $1 FOR SHARE;

-- name: programs_of_app
-- Without locks: only a deployment changes programs, and it locks the app.
SELECT id, definition FROM programs WHERE app = $1 ORDER BY id;

-- name: lock_programs_of_app
-- For a deployment: before the schedules, as in the launcher.
SELECT id, definition FROM programs WHERE app = $1 ORDER BY id FOR UPDATE;

-- name: schedules_of_app
-- As lock_schedules_of_app, without locks.
SELECT id, definition, generation, enabled, created_at, updated_at, deleted_at, kept_in, kept_from, resumed_at,
    affinity, NULL::text AS mode, NULL::timestamptz AS until, NULL::text AS note
FROM schedules WHERE app = $1 OR id = ANY ($2::text[]) ORDER BY id;

-- name: lock_schedules_of_app
-- All of an app's schedules, tombstones too, and those of $2; in id order, the lock order. Their pauses are read afterwards.
SELECT id, definition, generation, enabled, created_at, updated_at, deleted_at, kept_in, kept_from, resumed_at,
    affinity, NULL::text AS mode, NULL::timestamptz AS until, NULL::text AS note
FROM schedules WHERE app = $1 OR id = ANY ($2::text[]) ORDER BY id FOR UPDATE;

-- name: lock_schedules
-- Some schedules, tombstones too.
SELECT id, definition, generation, enabled, created_at, updated_at, deleted_at, kept_in, kept_from, resumed_at,
    affinity, NULL::text AS mode, NULL::timestamptz AS until, NULL::text AS note
FROM schedules WHERE id = ANY ($1::text[]) ORDER BY id FOR UPDATE;

-- name: pauses
-- The pauses of locked schedules: a statement of its own, which sees what was committed before the locks were granted.
SELECT schedule, generation, mode, until, note FROM pauses WHERE schedule = ANY ($1::text[]);

-- name: put_programs
-- Stores programs; existing runs keep the definition they were created with.
INSERT INTO programs (id, app, definition, created_at, updated_at)
SELECT id, $2, definition, $4, $4 FROM unnest($1::text[], $3::jsonb[]) AS given (id, definition) ORDER BY id
ON CONFLICT (id) DO UPDATE SET definition = excluded.definition, updated_at = excluded.updated_at;

-- name: remove_programs
-- Their schedules were deleted in the same transaction; their runs stay as history.
DELETE FROM programs WHERE id = ANY ($1::text[]);

-- name: count_affinities
-- How many schedules have one of these affinities, $2 at most.
SELECT given.affinity, count(*) AS schedules
FROM unnest($1::bigint[]) AS given (affinity)
CROSS JOIN LATERAL (SELECT FROM schedules s WHERE s.affinity = given.affinity AND s.deleted_at IS NULL LIMIT $2) AS found
GROUP BY given.affinity;

-- name: put_schedules
-- The next generation of each; a row that is no longer of the generation before is left unchanged and not returned. In id
-- order, the lock order. The affinity stays as it was first.
INSERT INTO schedules AS known
    (id, app, program, definition, generation, enabled, created_at, updated_at, deleted_at, kept_from, kept_in,
    draining_in, resumed_at, affinity)
SELECT id, app, program, definition, generation, enabled, created_at, updated_at, deleted_at, kept_from,
    CASE WHEN kept_from IS NOT NULL THEN generation END, CASE WHEN draining THEN generation END, resumed_at, affinity
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::jsonb[], $5::bigint[], $6::boolean[], $7::timestamptz[],
    $8::timestamptz[], $9::timestamptz[], $10::bigint[], $11::boolean[], $12::timestamptz[],
    $13::bigint[]
) AS given (id, app, program, definition, generation, enabled, created_at, updated_at, deleted_at, kept_from, draining,
    resumed_at, affinity)
ORDER BY id
ON CONFLICT (id) DO UPDATE SET
    program = excluded.program, definition = excluded.definition, generation = excluded.generation,
    enabled = excluded.enabled, created_at = excluded.created_at, updated_at = excluded.updated_at,
    deleted_at = excluded.deleted_at, kept_from = excluded.kept_from, kept_in = excluded.kept_in,
    draining_in = excluded.draining_in, resumed_at = excluded.resumed_at
WHERE known.generation = excluded.generation - 1
RETURNING id;

-- name: ring_graphs
-- Notifies those who move the nodes that wait for one of these schedules, which are enabled now. At most one index entry for
-- each schedule is read.
SELECT pg_notify('graph', '') FROM (
    SELECT FROM unnest($1::text[]) AS s (id) CROSS JOIN LATERAL (
        SELECT FROM graph_nodes
        WHERE held AND state = 'WAITING' AND app = regexp_replace(s.id, '[.][^.]*$', '') AND task = substring(s.id from '[^.]*$')
        LIMIT 1
    ) AS n
    LIMIT 1
) AS waiting;

-- name: clear_pauses
-- The pauses of former generations.
DELETE FROM pauses WHERE schedule = ANY ($1::text[]);

-- name: put_pauses
-- The pauses of these generations.
INSERT INTO pauses (schedule, generation, mode, until, note)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::timestamptz[], $5::text[]);

-- name: clear_timers
-- Waits for an instance that is firing one of them: its tick then is of the old generation, and counts for nothing
-- unless the change keeps. Ticks that are being spread are waited for by their own time.
DELETE FROM timers WHERE schedule = ANY ($1::text[]) RETURNING schedule, leaf, coalesce(tick_at, due_at) AS due_at;

-- name: clear_wakes
-- What the folds of deleted schedules asked for. What is still on its way to us finds the tombstone (wakes.sql, take).
WITH gone AS (SELECT id FROM wakes WHERE schedule = ANY ($1::text[]) ORDER BY id FOR UPDATE)
DELETE FROM wakes w USING gone WHERE w.id = gone.id;

-- name: put_timers
-- The first ticks of the new generations.
INSERT INTO timers (schedule, leaf, generation, due_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::timestamptz[]);

-- name: ring_timers
-- A new timer may be due before the others.
SELECT pg_notify('timers', '');

-- name: end_jobs
-- Ends waiting and ready jobs of superseded generations as OBSOLETE, and ready jobs whose program is no longer that of the
-- schedule. For each schedule: the oldest valid generation, the reason, the time, the program. The states repeat the rows
-- of JobFact.SUPERSEDED in domain.jobs.job.TRANSITIONS. Waits for a job that is being launched, and does not change it.
WITH superseded AS (
    SELECT j.id, given.reason, given.ended_at
    FROM unnest($1::text[], $2::bigint[], $3::text[], $4::timestamptz[], $5::text[])
        AS given (schedule, oldest_valid_generation, reason, ended_at, program)
    JOIN jobs j ON j.schedule = given.schedule
    WHERE j.state IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH')
        AND (j.generation < given.oldest_valid_generation OR j.state = 'PENDING_LAUNCH' AND j.program <> given.program)
    ORDER BY j.id
    FOR UPDATE OF j
)
UPDATE jobs SET state = 'OBSOLETE', reason = superseded.reason, ended_at = superseded.ended_at, next_check_at = NULL
FROM superseded WHERE jobs.id = superseded.id
RETURNING jobs.id, jobs.reason, jobs.ended_at;

-- name: keep_jobs
-- Valid waiting jobs are rechecked, by the current definitions and for their programs.
WITH kept AS (
    SELECT j.id, given.program FROM unnest($1::text[], $2::text[]) AS given (schedule, program)
    JOIN jobs j ON j.schedule = given.schedule
    WHERE j.state = 'PENDING_CONSTRAINT' ORDER BY j.id FOR UPDATE OF j
), woken AS (
    UPDATE jobs SET next_check_at = timestamptz 'epoch', program = kept.program FROM kept WHERE jobs.id = kept.id
    RETURNING jobs.id
)
SELECT pg_notify('launcher', '') FROM woken LIMIT 1;

-- name: release_runs
-- Runs held back by a pause may be claimed again; the claim decides whether they run. While the schedule is paused and
-- does not admit jobs (holding), only runs of superseded jobs. A locked run is being claimed; its claim waits for this
-- change.
WITH released AS (
    UPDATE runs SET spawn_at = timestamptz 'epoch', spawns = 0
    WHERE id IN (
        SELECT r.id FROM runs r JOIN jobs j ON j.id = r.job
        JOIN unnest($1::text[], $2::boolean[], $3::bigint[]) AS given (schedule, holding, oldest_valid_generation)
            ON given.schedule = j.schedule
        WHERE r.state = 'PENDING' AND r.spawn_at = timestamptz 'infinity'
            AND (NOT given.holding OR j.generation < given.oldest_valid_generation OR j.state = 'OBSOLETE')
        FOR UPDATE OF r SKIP LOCKED
    )
    RETURNING id
)
SELECT pg_notify('launcher', '') FROM released LIMIT 1;

-- name: schedules
-- Schedules with their state; $1 namespace, $2 app, $3 schedules, each NULL for any; at most $5 (NULL: all) after id $4;
-- $6 states, none for any.
SELECT s.id, s.definition, s.generation, s.enabled, s.created_at, s.updated_at, s.deleted_at, s.kept_in, s.kept_from,
    s.resumed_at, s.affinity, z.mode, z.until, z.note, p.progress, h.halt,
    (SELECT min(t.due_at) FROM timers t WHERE t.schedule = s.id AND NOT starts_with(t.leaf, 'since_last_run:'))
        AS next_tick_at,
    array(SELECT t.leaf FROM timers t WHERE t.schedule = s.id AND starts_with(t.leaf, 'since_last_run:') ORDER BY t.leaf)
        AS since_leaves,
    array(SELECT t.due_at FROM timers t WHERE t.schedule = s.id AND starts_with(t.leaf, 'since_last_run:') ORDER BY t.leaf)
        AS since_due_at,
    array(SELECT m.program FROM removed_programs m WHERE m.schedule = s.id ORDER BY m.program) AS removed,
    array(SELECT m.removed_at FROM removed_programs m WHERE m.schedule = s.id ORDER BY m.program) AS removed_at,
    array(SELECT m.removed_by FROM removed_programs m WHERE m.schedule = s.id ORDER BY m.program) AS removed_by,
    (SELECT count(*) FROM jobs j
     WHERE j.schedule = s.id AND j.state IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH')) AS waiting_jobs,
    (SELECT count(*) FROM open_keys k WHERE k.schedule = s.id AND k.generation = s.generation) AS open_keys
FROM schedules s
JOIN apps a ON a.id = s.app
LEFT JOIN trigger_progress p ON p.schedule = s.id AND p.generation = s.generation
LEFT JOIN pauses z ON z.schedule = s.id AND z.generation = s.generation
LEFT JOIN schedule_halts h ON h.schedule = s.id
WHERE s.deleted_at IS NULL
    AND ($1::text IS NULL OR a.namespace = $1)
    AND ($2::text IS NULL OR s.app = $2)
    AND ($3::text[] IS NULL OR s.id = ANY ($3))
    AND s.id > $4
    AND (cardinality($6::text[]) = 0 OR h.halt IS NOT NULL AND 'error' = ANY ($6::text[])
        OR CASE WHEN s.enabled THEN 'enabled' WHEN z.schedule IS NULL THEN 'disabled' ELSE 'paused' END = ANY ($6::text[]))
ORDER BY s.id
LIMIT $5;

-- name: ticking
-- The $3 schedules that tick soonest, of $1 namespace and $2 app, each NULL for any: only they can have one of the next
-- $3 ticks of all.
SELECT s.id, s.definition, s.generation, s.enabled, s.created_at, s.updated_at, s.deleted_at, s.kept_in, s.kept_from,
    s.resumed_at, s.affinity, z.mode, z.until, z.note
FROM (
    SELECT t.schedule, min(t.due_at) AS due_at FROM timers t
    JOIN schedules o ON o.id = t.schedule JOIN apps a ON a.id = o.app
    WHERE o.deleted_at IS NULL AND NOT starts_with(t.leaf, 'since_last_run:')
        AND ($1::text IS NULL OR a.namespace = $1) AND ($2::text IS NULL OR o.app = $2)
    GROUP BY t.schedule ORDER BY min(t.due_at) LIMIT $3
) AS next
JOIN schedules s ON s.id = next.schedule
LEFT JOIN pauses z ON z.schedule = s.id AND z.generation = s.generation
ORDER BY next.due_at, s.id;

-- name: existing_programs
-- Those of the programs $1 that exist.
SELECT id FROM programs WHERE id = ANY ($1::text[]);

-- name: enabled_of_programs
-- At most $2 enabled schedules of the programs $1. They have no pause.
SELECT id, definition, generation, enabled, created_at, updated_at, deleted_at, kept_in, kept_from, resumed_at,
    affinity, NULL::text AS mode, NULL::timestamptz AS until, NULL::text AS note
FROM schedules WHERE program = ANY ($1::text[]) AND deleted_at IS NULL AND enabled ORDER BY program, id LIMIT $2;

-- name: apps
-- Apps that have programs, schedules or expectations; $1 namespace, $2 app, each NULL for any; at most $4 (NULL: all) after id $3.
SELECT a.id, a.updated_at, a.origin, p.programs, s.enabled, s.paused, s.disabled
FROM apps a
CROSS JOIN LATERAL (SELECT count(*) AS programs FROM programs WHERE app = a.id) p
CROSS JOIN LATERAL (
    SELECT count(*) AS schedules,
        count(*) FILTER (WHERE enabled) AS enabled,
        count(*) FILTER (WHERE NOT enabled AND z.schedule IS NOT NULL) AS paused,
        count(*) FILTER (WHERE NOT enabled AND z.schedule IS NULL) AS disabled
    FROM schedules k LEFT JOIN pauses z ON z.schedule = k.id AND z.generation = k.generation
    WHERE k.app = a.id AND k.deleted_at IS NULL
) s
WHERE ($1::text IS NULL OR a.namespace = $1) AND ($2::text IS NULL OR a.id = $2) AND a.id > $3
    AND (p.programs > 0 OR s.schedules > 0 OR EXISTS (SELECT FROM expectations WHERE app = a.id))
ORDER BY a.id
LIMIT $4;

-- name: generations
-- Of the schedules of an app that exist.
SELECT id, generation FROM schedules WHERE app = $1 AND deleted_at IS NULL;

-- name: programs
-- Programs; $1 namespace, $2 app, $3 program, each NULL for any; at most $5 (NULL: all) after id $4.
SELECT p.definition
FROM programs p
JOIN apps a ON a.id = p.app
WHERE ($1::text IS NULL OR a.namespace = $1) AND ($2::text IS NULL OR p.app = $2) AND ($3::text IS NULL OR p.id = $3)
    AND p.id > $4
ORDER BY p.id
LIMIT $5;
