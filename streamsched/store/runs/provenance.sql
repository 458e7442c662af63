-- Where runs come from.

-- name: run
-- A run with what its arguments come from: the satisfaction of its job, the current definition of its schedule, the
-- preferences of its namespace, and the history's line of its making.
WITH run AS (
    SELECT id, job, program, executable, arguments, created_at FROM runs WHERE id = $1
    UNION ALL
    SELECT r.id, r.job, r.program, r.executable, r.arguments, r.created_at
    FROM runs_history h, jsonb_populate_record(NULL::runs, h.record) AS r WHERE h.id = $1
), satisfied AS (
    SELECT j.schedule, j.ready FROM run r JOIN jobs j ON j.id = r.job
    UNION ALL
    SELECT h.schedule, h.record -> 'ready' FROM run r JOIN jobs_history h ON h.id = r.job
)
SELECT r.job, r.arguments, r.executable::text AS executable, r.created_at, s.ready::text AS ready,
    d.definition::text AS schedule, d.updated_at, n.arguments AS preferences, n.changed_at,
    (SELECT reason FROM decisions WHERE subject_kind = 'run' AND subject = r.id AND action = 'run.created'
        ORDER BY id LIMIT 1) AS made
FROM run r
LEFT JOIN satisfied s ON true
LEFT JOIN schedules d ON d.id = s.schedule AND d.deleted_at IS NULL
LEFT JOIN preferences n ON n.namespace = split_part(r.program, '.', 1)
LIMIT 1;

-- name: chain
-- The runs of a job, of those it repeats and of those that repeat them, oldest first, at most $2. What repeats a job is
-- in its history.
WITH RECURSIVE up (job, depth) AS (
    SELECT $1::text, 0
    UNION ALL
    SELECT coalesce(
        (SELECT ready -> 'submission' -> 'rerun' ->> 'job' FROM jobs WHERE id = u.job),
        (SELECT record -> 'ready' -> 'submission' -> 'rerun' ->> 'job' FROM jobs_history WHERE id = u.job LIMIT 1)
    ), u.depth + 1
    FROM up u WHERE u.job IS NOT NULL AND u.depth < $2
), down (job, depth) AS (
    SELECT * FROM (SELECT job, 0 FROM up WHERE job IS NOT NULL ORDER BY depth DESC LIMIT 1) AS root
    UNION ALL
    SELECT substr(d.reason, 4), o.depth + 1
    FROM down o JOIN decisions d ON d.subject_kind = 'job' AND d.subject = o.job AND d.action = 'job.rerun'
    WHERE o.depth < $2
), family AS (
    SELECT job FROM up WHERE job IS NOT NULL UNION SELECT job FROM down
), known AS (
    SELECT j.id, j.created_at, j.ready -> 'submission' -> 'rerun' ->> 'run' AS rerun_of, NULL::timestamptz AS done_at,
        NULL::text[] AS runs
    FROM jobs j JOIN family f ON f.job = j.id
    UNION ALL
    SELECT h.id, h.created_at, h.record -> 'ready' -> 'submission' -> 'rerun' ->> 'run', h.done_at, h.runs
    FROM jobs_history h JOIN family f ON f.job = h.id
), ran AS (
    SELECT k.id AS job, r.id, r.attempt, r.state, r.started_at, r.ended_at FROM known k JOIN runs r ON r.job = k.id
    UNION ALL
    SELECT k.id, r.id, r.attempt, r.state, r.started_at, r.ended_at
    FROM known k JOIN runs_history h ON h.id = ANY (k.runs) AND h.done_at = k.done_at,
        jsonb_populate_record(NULL::runs, h.record) AS r
)
SELECT k.id AS job, k.rerun_of, r.id AS run, r.attempt, r.state, r.started_at, r.ended_at
FROM known k LEFT JOIN ran r ON r.job = k.id
ORDER BY k.created_at, k.id, r.attempt
LIMIT $2;
