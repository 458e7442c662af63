-- Deadlines that are still to come. See ports/deadlines.py.

-- name: watch
-- From here on these are watched; who sleeps is told when one comes before he would have looked. Times of job, run and
-- place that are watched already stay as they are.
WITH stored AS (
    INSERT INTO deadlines (job, run, place, due_at, said)
    SELECT job, run, place, due_at, said::jsonb
    FROM unnest($2::text[], $3::text[], $4::smallint[], $5::timestamptz[], $6::text[]) AS n (job, run, place, due_at, said)
    ON CONFLICT DO NOTHING
    RETURNING due_at
)
SELECT pg_notify('timers', '') FROM stored WHERE due_at < $1::timestamptz + interval '30 seconds' LIMIT 1;

-- name: due
-- Whose time has come, the longest over first.
SELECT job, run, place FROM deadlines WHERE due_at <= $1 ORDER BY due_at LIMIT $2;

-- name: next_due
-- When the next one's comes.
SELECT due_at FROM deadlines ORDER BY due_at LIMIT 1;

-- name: get
-- One, with the schedule and program of its job.
SELECT d.due_at, d.said, j.schedule, j.program FROM deadlines d JOIN jobs j ON j.id = d.job
WHERE d.job = $1 AND d.run = $2 AND d.place = $3;

-- name: lock
-- Whoever gets it settles it; nobody else is waited for.
SELECT FROM deadlines WHERE job = $1 AND run = $2 AND place = $3 FOR UPDATE SKIP LOCKED;

-- name: lock_job
-- As it is when everybody who changes it now has done so.
SELECT state, ended_at FROM jobs WHERE id = $1 FOR UPDATE;

-- name: runs
-- Of a job, first attempt first; of one run alone when $2 names it.
SELECT id, state, ended_at FROM runs WHERE job = $1 AND ($2 = '' OR id = $2) ORDER BY attempt;

-- name: settled
-- It is kept, or was missed and answered.
DELETE FROM deadlines WHERE job = $1 AND run = $2 AND place = $3;

-- name: note
-- The job says so from here on.
UPDATE jobs SET missed = coalesce(missed, '{}') || $2::text WHERE id = $1;

-- name: of_job
-- What of a job is still watched, for people.
SELECT run, due_at, said FROM deadlines WHERE job = $1 ORDER BY due_at, run, place;
