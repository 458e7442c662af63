-- Apps, programs and schedules. Locks in one order: app, program, schedules by id, timers, jobs by id (ports/catalog.py).

-- name: create_namespace
-- Namespaces come into being with their first app.
INSERT INTO namespaces (name, created_at) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: hold_app
-- A deployment owns the app until it commits: this waits for every change that shares it, and they for this.
INSERT INTO apps (id, namespace, created_at, updated_at) VALUES ($1, $2, $3, $3)
ON CONFLICT (id) DO UPDATE SET updated_at = excluded.updated_at;

-- name: share_app
-- A change of single schedules: no deployment may come between, other schedules' changes may.
SELECT 1 FROM apps WHERE id = $1 FOR SHARE;

-- name: programs_of_app
-- No locks: only a deployment changes programs, and that owns the app.
SELECT definition FROM programs WHERE app = $1 ORDER BY id;

-- name: lock_programs_of_app
-- For a deployment: before the schedules, as the launcher locks them.
SELECT definition FROM programs WHERE app = $1 ORDER BY id FOR UPDATE;

-- name: lock_schedules_of_app
-- All of an app's schedules, tombstones too; in id order, as everybody locks them.
SELECT definition, generation, enabled, created_at, updated_at, deleted_at
FROM schedules WHERE app = $1 ORDER BY id FOR UPDATE;

-- name: lock_schedules
-- Some schedules, tombstones too.
SELECT definition, generation, enabled, created_at, updated_at, deleted_at
FROM schedules WHERE id = ANY ($1::text[]) ORDER BY id FOR UPDATE;

-- name: put_program
-- Stores a program as it is from now on; runs keep the one they were made with.
INSERT INTO programs (id, app, definition, created_at, updated_at) VALUES ($1, $2, $3, $4, $4)
ON CONFLICT (id) DO UPDATE SET definition = excluded.definition, updated_at = excluded.updated_at;

-- name: remove_program
-- Its schedules went in the same transaction; its runs stay as history.
DELETE FROM programs WHERE id = $1;

-- name: put_schedule
-- The next generation, unless another change came between ($10 is the generation that was read, 0: none): then no row.
INSERT INTO schedules AS known
    (id, app, program, definition, generation, enabled, created_at, updated_at, deleted_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (id) DO UPDATE SET
    program = excluded.program, definition = excluded.definition, generation = excluded.generation,
    enabled = excluded.enabled, created_at = excluded.created_at, updated_at = excluded.updated_at,
    deleted_at = excluded.deleted_at
WHERE known.generation = $10::bigint
RETURNING generation;

-- name: clear_timers
-- Waits for an instance that is firing one of them: its tick then is of the old generation, and counts for nothing.
DELETE FROM timers WHERE schedule = $1;

-- name: clear_wakes
-- What the folds of a deleted schedule asked for. What is still on its way to us finds the tombstone (wakes.sql, take).
WITH gone AS (SELECT id FROM wakes WHERE schedule = $1 ORDER BY id FOR UPDATE)
DELETE FROM wakes w USING gone WHERE w.id = gone.id;

-- name: put_timers
-- The first ticks of the new generation.
INSERT INTO timers (schedule, leaf, generation, due_at)
SELECT $1, leaf, $2, due_at FROM unnest($3::text[], $4::timestamptz[]) AS given (leaf, due_at);

-- name: ring_timers
-- One of the new timers may be due before what the instances sleep for.
SELECT pg_notify('timers', '');

-- name: end_jobs
-- Waiting and ready jobs of older generations never launch. The states repeat JobFact.SUPERSEDED's rows of
-- domain.job.TRANSITIONS. A job that is being launched just now is waited for, and then left alone.
WITH superseded AS (
    SELECT id FROM jobs
    WHERE schedule = $1 AND generation < $2 AND state IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH')
    ORDER BY id
    FOR UPDATE
)
UPDATE jobs SET state = 'OBSOLETE', reason = $3, ended_at = $4, next_check_at = NULL
FROM superseded WHERE jobs.id = superseded.id
RETURNING jobs.id;

-- name: schedules
-- Schedules as people see them; $1 namespace, $2 app, $3 schedule, each NULL for any.
SELECT s.definition, s.generation, s.enabled, s.created_at, s.updated_at, s.deleted_at,
    (SELECT min(t.due_at) FROM timers t WHERE t.schedule = s.id) AS next_tick_at,
    (SELECT count(*) FROM jobs j
     WHERE j.schedule = s.id AND j.state IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH')) AS waiting_jobs,
    p.progress
FROM schedules s
JOIN apps a ON a.id = s.app
LEFT JOIN trigger_progress p ON p.schedule = s.id AND p.generation = s.generation
WHERE s.deleted_at IS NULL
    AND ($1::text IS NULL OR a.namespace = $1)
    AND ($2::text IS NULL OR s.app = $2)
    AND ($3::text IS NULL OR s.id = $3)
ORDER BY s.id;

-- name: programs
-- Programs; $1 namespace, $2 app, $3 program, each NULL for any.
SELECT p.definition
FROM programs p
JOIN apps a ON a.id = p.app
WHERE ($1::text IS NULL OR a.namespace = $1) AND ($2::text IS NULL OR p.app = $2) AND ($3::text IS NULL OR p.id = $3)
ORDER BY p.id;
