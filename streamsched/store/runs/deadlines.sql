-- Deadlines that have not been evaluated.

-- name: watch
-- Stores deadlines and notifies when one may be due before the others. Existing ones stay unchanged.
WITH stored AS (
    INSERT INTO deadlines (job, run, place, due_at, said)
    SELECT job, run, place, due_at, said::jsonb
    FROM unnest($2::text[], $3::text[], $4::smallint[], $5::timestamptz[], $6::text[]) AS n (job, run, place, due_at, said)
    ON CONFLICT DO NOTHING
    RETURNING due_at
)
SELECT pg_notify('timers', '') FROM stored WHERE due_at < $1::timestamptz + interval '30 seconds' LIMIT 1;

-- name: due
-- Due deadlines, due longest first; without those in $3 to $5, which this instance could not settle.
SELECT job, run, place FROM deadlines d
WHERE due_at <= $1 AND NOT EXISTS (
    SELECT FROM unnest($3::text[], $4::text[], $5::smallint[]) AS n (job, run, place)
    WHERE n.job = d.job AND n.run = d.run AND n.place = d.place
)
ORDER BY due_at LIMIT $2;

-- name: next_due
-- When the next deadline is due; without those in $1 to $3.
SELECT due_at FROM deadlines d
WHERE NOT EXISTS (
    SELECT FROM unnest($1::text[], $2::text[], $3::smallint[]) AS n (job, run, place)
    WHERE n.job = d.job AND n.run = d.run AND n.place = d.place
)
ORDER BY due_at LIMIT 1;

-- name: failed
-- It could not be settled; written to the history of its job.
INSERT INTO decisions (at, subject_kind, subject, action, reason) VALUES ($1, 'job', $2, 'job.deadline_failed', $3);

-- name: get
-- One, with the schedule and program of its job.
SELECT d.due_at, d.said, j.schedule, j.program FROM deadlines d JOIN jobs j ON j.id = d.job
WHERE d.job = $1 AND d.run = $2 AND d.place = $3;

-- name: lock
-- The holder of the lock settles it; a locked one is skipped.
SELECT FROM deadlines WHERE job = $1 AND run = $2 AND place = $3 FOR UPDATE SKIP LOCKED;

-- name: lock_job
-- The job after concurrent changes have committed.
SELECT state, ended_at FROM jobs WHERE id = $1 FOR UPDATE;

-- name: runs
-- Of a job, first attempt first; of one run alone when $2 names it.
SELECT id, state, ended_at FROM runs WHERE job = $1 AND ($2 = '' OR id = $2) ORDER BY attempt;

-- name: settled
-- It was met, or missed and handled.
DELETE FROM deadlines WHERE job = $1 AND run = $2 AND place = $3;

-- name: note
-- Stores the miss in the job.
UPDATE jobs SET missed = coalesce(missed, '{}') || $2::text WHERE id = $1;

-- name: of_job
-- The deadlines of a job that are ahead.
SELECT run, due_at, said FROM deadlines WHERE job = $1 ORDER BY due_at, run, place;
