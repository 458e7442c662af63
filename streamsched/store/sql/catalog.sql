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

-- name: awaiting
-- Schedules of other apps than $1 that wait for a program: $2 is a list with its `programId`, as triggers have it.
SELECT id FROM schedules
WHERE deleted_at IS NULL AND jsonb_path_query_array(definition, '$.trigger.**.programId') @> $2::jsonb AND app <> $1;

-- name: schedules_of_app
-- As lock_schedules_of_app, for who only looks.
SELECT id, definition, generation, enabled, created_at, updated_at, deleted_at, kept_in, kept_from
FROM schedules WHERE app = $1 OR id = ANY ($2::text[]) ORDER BY id;

-- name: lock_schedules_of_app
-- All of an app's schedules, tombstones too, and those of $2; in id order, as everybody locks them.
SELECT id, definition, generation, enabled, created_at, updated_at, deleted_at, kept_in, kept_from
FROM schedules WHERE app = $1 OR id = ANY ($2::text[]) ORDER BY id FOR UPDATE;

-- name: lock_schedules
-- Some schedules, tombstones too.
SELECT id, definition, generation, enabled, created_at, updated_at, deleted_at, kept_in, kept_from
FROM schedules WHERE id = ANY ($1::text[]) ORDER BY id FOR UPDATE;

-- name: pauses
-- The pauses of schedules that are locked: a statement of its own, which sees what was written before the locks came.
SELECT schedule, generation, keep, until, note FROM pauses WHERE schedule = ANY ($1::text[]);

-- name: put_program
-- Stores a program as it is from now on; runs keep the one they were made with.
INSERT INTO programs (id, app, definition, created_at, updated_at) VALUES ($1, $2, $3, $4, $4)
ON CONFLICT (id) DO UPDATE SET definition = excluded.definition, updated_at = excluded.updated_at;

-- name: remove_program
-- Its schedules went in the same transaction; its runs stay as history.
DELETE FROM programs WHERE id = $1;

-- name: put_schedule
-- The next generation, unless another change came between ($11 is the generation that was read, 0: none): then no row.
INSERT INTO schedules AS known
    (id, app, program, definition, generation, enabled, created_at, updated_at, deleted_at, kept_from, kept_in)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, CASE WHEN $10::bigint IS NOT NULL THEN $5::bigint END)
ON CONFLICT (id) DO UPDATE SET
    program = excluded.program, definition = excluded.definition, generation = excluded.generation,
    enabled = excluded.enabled, created_at = excluded.created_at, updated_at = excluded.updated_at,
    deleted_at = excluded.deleted_at, kept_from = excluded.kept_from, kept_in = excluded.kept_in
WHERE known.generation = $11::bigint
RETURNING generation;

-- name: clear_pause
-- The pause of a former generation.
DELETE FROM pauses WHERE schedule = $1;

-- name: put_pause
-- How this generation is paused.
INSERT INTO pauses (schedule, generation, keep, until, note) VALUES ($1, $2, $3, $4, $5);

-- name: clear_timers
-- Waits for an instance that is firing one of them: its tick then is of the old generation, and counts for nothing
-- unless the change keeps. Ticks that are being spread are waited for by their own time.
DELETE FROM timers WHERE schedule = $1 RETURNING leaf, coalesce(tick_at, due_at) AS due_at;

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
-- Waiting and ready jobs that do not stand any more never launch; nor does a ready one of another program than $5. The
-- states repeat JobFact.SUPERSEDED's rows of domain.job.TRANSITIONS. A job that is being launched just now is waited
-- for, and then left alone.
WITH superseded AS (
    SELECT id FROM jobs
    WHERE schedule = $1 AND state IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH')
        AND (generation < $2 OR state = 'PENDING_LAUNCH' AND program <> $5)
    ORDER BY id
    FOR UPDATE
)
UPDATE jobs SET state = 'OBSOLETE', reason = $3, ended_at = $4, next_check_at = NULL
FROM superseded WHERE jobs.id = superseded.id
RETURNING jobs.id;

-- name: keep_jobs
-- Waiting jobs that stand are looked at again, by the definition that stands now and for its program.
WITH kept AS (
    SELECT id FROM jobs WHERE schedule = $1 AND state = 'PENDING_CONSTRAINT' ORDER BY id FOR UPDATE
), woken AS (
    UPDATE jobs SET next_check_at = timestamptz 'epoch', program = $2 FROM kept WHERE jobs.id = kept.id
    RETURNING jobs.id
)
SELECT id, pg_notify('launcher', '') FROM woken;

-- name: release_runs
-- Runs that a pause held back may be claimed again: to run, or to find that they must not. While the pause goes on ($2),
-- those alone whose jobs stand no more. One that is locked is being claimed just now, and waits for this change.
WITH released AS (
    UPDATE runs SET spawn_at = timestamptz 'epoch', spawns = 0
    WHERE id IN (
        SELECT r.id FROM runs r JOIN jobs j ON j.id = r.job
        WHERE r.state = 'PENDING' AND r.spawn_at = timestamptz 'infinity' AND j.schedule = $1
            AND (NOT $2::boolean OR j.generation < $3::bigint OR j.state = 'OBSOLETE')
        FOR UPDATE OF r SKIP LOCKED
    )
    RETURNING id
)
SELECT id, pg_notify('launcher', '') FROM released;

-- name: schedules
-- Schedules as people see them; $1 namespace, $2 app, $3 schedule, each NULL for any.
SELECT s.definition, s.generation, s.enabled, s.created_at, s.updated_at, s.deleted_at, s.kept_in, s.kept_from,
    p.progress, z.keep, z.until, z.note, h.halt,
    (SELECT min(t.due_at) FROM timers t WHERE t.schedule = s.id) AS next_tick_at,
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
    AND ($3::text IS NULL OR s.id = $3)
ORDER BY s.id;

-- name: programs
-- Programs; $1 namespace, $2 app, $3 program, each NULL for any.
SELECT p.definition
FROM programs p
JOIN apps a ON a.id = p.app
WHERE ($1::text IS NULL OR a.namespace = $1) AND ($2::text IS NULL OR p.app = $2) AND ($3::text IS NULL OR p.id = $3)
ORDER BY p.id;
