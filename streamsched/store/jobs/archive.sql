-- Moves ended jobs and runs to the history and deletes old history. Migration 0016, ADR 18.

-- name: lookback
-- The constraints of schedules that depend on ended runs.
SELECT DISTINCT each FROM schedules s CROSS JOIN LATERAL jsonb_array_elements(s.definition -> 'constraints') AS each
WHERE s.deleted_at IS NULL AND each ->> 'type' = 'LAST_RUN';

-- name: dedupe
-- The longest time for which a queue recognises repeats.
SELECT coalesce(max(dedupe), interval '0') FROM task_queues;

-- name: pick_jobs
-- Jobs that ended before $1 with all their runs, by creation time, after ($2, $3). Jobs coalesced into one move with it.
-- A job with a deadline that has not been evaluated stays; deadlines after its end are met. So does one whose end a node
-- of a graph has not counted.
SELECT j.id, j.created_at, greatest(j.ended_at, r.ended_at) AS done_at
FROM jobs j CROSS JOIN LATERAL (
    SELECT max(ended_at) AS ended_at, count(*) FILTER (WHERE ended_at IS NULL) AS alive FROM runs WHERE job = j.id
) AS r
WHERE (j.created_at, j.id) > ($2::timestamptz, $3::text) AND j.created_at < $1 AND j.ended_at < $1 AND j.joined IS NULL
    AND NOT EXISTS (SELECT FROM node_ends e WHERE e.job = j.id)
    AND NOT EXISTS (SELECT FROM deadlines d WHERE d.job = j.id AND d.due_at <= $1) AND r.alive = 0 AND (r.ended_at IS NULL OR r.ended_at < $1)
ORDER BY j.created_at, j.id
LIMIT $4;

-- name: pick_runs
-- Manual runs that ended before $1, as pick_jobs.
SELECT id, created_at, ended_at AS done_at FROM runs
WHERE (created_at, id) > ($2::timestamptz, $3::text) AND created_at < $1 AND ended_at < $1 AND job IS NULL
ORDER BY created_at, id
LIMIT $4;

-- name: mark_archived
-- Marks these jobs and older ones as spent: a repeated launch record creates no job.
INSERT INTO jobs_spent AS known (schedule, generation, sequence)
SELECT DISTINCT ON (schedule) schedule, generation, sequence FROM (
    SELECT schedule, generation, sequence FROM jobs WHERE id = ANY ($1::text[])
    UNION ALL
    SELECT schedule, generation, sequence FROM jobs WHERE joined = ANY ($1::text[])
) AS leaving
WHERE schedule IS NOT NULL
ORDER BY schedule, generation DESC, sequence DESC
ON CONFLICT (schedule) DO UPDATE SET generation = excluded.generation, sequence = excluded.sequence
WHERE (known.generation, known.sequence) < (excluded.generation, excluded.sequence);

-- name: wait_for_older_intakes
-- Waits for intakes that started before `mark_archived` was visible.
SELECT count(*) FROM (SELECT FROM intake_positions WHERE topic = $1 ORDER BY partition FOR SHARE) AS held;

-- name: move_jobs
-- Moves these jobs, the jobs coalesced into them, and their runs, with the time they were done; those done before $3 are
-- deleted. Foreign keys are checked at the end of the statement, when all rows are gone.
WITH leaving AS MATERIALIZED (
    SELECT id, done_at, array(SELECT r.id FROM runs r WHERE r.job = given.id ORDER BY r.attempt) AS runs
    FROM unnest($1::text[], $2::timestamptz[]) AS given (id, done_at)
), family AS MATERIALIZED (
    SELECT id, done_at, runs FROM leaving
    UNION ALL
    SELECT j.id, l.done_at, '{}' FROM leaving l JOIN jobs j ON j.joined = l.id
), gone_runs AS (
    DELETE FROM runs r USING leaving l, jobs j WHERE r.job = l.id AND j.id = l.id
    RETURNING l.done_at, r.id, r.program, j.schedule, r.state, r.created_at, to_jsonb(r) AS record
), gone_jobs AS (
    DELETE FROM jobs j USING family f WHERE j.id = f.id
    RETURNING f.done_at, j.id, j.schedule, j.state, j.created_at, f.runs, to_jsonb(j) AS record
), kept_runs AS (
    INSERT INTO runs_history (done_at, id, program, schedule, state, created_at, record)
    SELECT done_at, id, program, schedule, state, created_at, record FROM gone_runs WHERE done_at >= $3
), kept_jobs AS (
    INSERT INTO jobs_history (done_at, id, schedule, state, created_at, runs, record)
    SELECT done_at, id, schedule, state, created_at, runs, record FROM gone_jobs WHERE done_at >= $3
)
SELECT count(*) FROM gone_jobs;

-- name: move_runs
-- These runs of no job.
WITH gone AS (
    DELETE FROM runs r USING unnest($1::text[], $2::timestamptz[]) AS leaving (id, done_at)
    WHERE r.id = leaving.id AND r.job IS NULL
    RETURNING leaving.done_at, r.id, r.program, r.state, r.created_at, to_jsonb(r) AS record
), kept AS (
    INSERT INTO runs_history (done_at, id, program, state, created_at, record)
    SELECT done_at, id, program, state, created_at, record FROM gone WHERE done_at >= $3
)
SELECT count(*) FROM gone;

-- name: deleted_schedules
-- Schedules that were deleted before $1 and have no live job, the oldest first.
SELECT id, app FROM schedules s
WHERE deleted_at < $1 AND NOT EXISTS (SELECT FROM jobs j WHERE j.schedule = s.id)
ORDER BY deleted_at, id
LIMIT $2;

-- name: lock_apps
-- As a deployment does: changes of the schedules of these apps wait, and we for them.
SELECT id FROM apps WHERE id = ANY ($1::text[]) ORDER BY id FOR NO KEY UPDATE;

-- name: forget_schedules
-- Deletes the rows of those of these schedules that are still deleted, under the locks of their apps, which keep the highest
-- generation. Of the verdicts the sums stay.
WITH gone AS (
    DELETE FROM schedules WHERE id = ANY ($1::text[]) AND deleted_at < $2 RETURNING id, app, generation
), kept AS (
    UPDATE apps a SET forgotten_generation = greatest(a.forgotten_generation, g.highest)
    FROM (SELECT app, max(generation) AS highest FROM gone GROUP BY app) AS g
    WHERE a.id = g.app
), versions AS (
    DELETE FROM schedule_versions v USING gone g WHERE v.schedule = g.id
), spent AS (
    DELETE FROM jobs_spent d USING gone g WHERE d.schedule = g.id
), failing AS (
    DELETE FROM failing f USING gone g WHERE f.owner = g.id
), totals AS (
    DELETE FROM verdict_totals t USING gone g WHERE t.subject = g.id RETURNING t.verdict, t.late, t.total, t.last_at
), summed AS (
    INSERT INTO verdict_totals AS known (subject, verdict, late, total, last_at)
    SELECT '*', verdict, late, sum(total), max(last_at) FROM totals GROUP BY verdict, late ORDER BY verdict, late
    ON CONFLICT (subject, verdict, late) DO UPDATE SET
        total = known.total + excluded.total, last_at = greatest(known.last_at, excluded.last_at)
)
SELECT count(*) FROM gone;

-- name: known_runs
-- Those of these that are alive, have ended, or are in the history.
SELECT id FROM runs WHERE id = ANY($1::text[])
UNION ALL
SELECT id FROM runs_history WHERE id = ANY($1::text[]);

-- name: active_runs
-- Those of these that have not ended.
SELECT id FROM runs WHERE id = ANY($1::text[]) AND ended_at IS NULL;

-- name: early
-- Times of history that came before its partition was made: the first of each hour.
SELECT 'work_decisions' AS "table", min(at) AS at FROM work_decisions_rest GROUP BY date_trunc('hour', at, 'UTC')
UNION ALL
SELECT 'tasks_history', min(at) FROM tasks_history_rest GROUP BY date_trunc('hour', at, 'UTC')
UNION ALL
SELECT 'audit_decisions', min(at) FROM audit_decisions_rest GROUP BY date_trunc('hour', at, 'UTC')
ORDER BY 1, 2;

-- name: make_part
-- A partition, unless it is there.
SELECT make_part_v1($1, $2, $3);

-- name: drop_part
-- The oldest partition that ended by then; '' when there is none, NULL when it is in use.
SELECT drop_part_v1($1, $2);

-- name: standing
-- What there is: tables, their partitions, and how large they are. For people.
SELECT p.relname::text AS "table", count(i.inhrelid) AS parts,
    coalesce(sum(pg_total_relation_size(i.inhrelid)), 0)::bigint AS bytes,
    min(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM \(''([^'']+)''\)')::timestamptz) AS oldest
FROM unnest($1::text[]) AS wanted (name) JOIN pg_class p ON p.oid = to_regclass(wanted.name)
LEFT JOIN pg_inherits i ON i.inhparent = p.oid LEFT JOIN pg_class c ON c.oid = i.inhrelid
GROUP BY p.relname ORDER BY p.relname;
