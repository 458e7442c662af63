-- The changes that decisions make. The states repeat domain.job.TRANSITIONS and domain.run.TRANSITIONS.

-- name: leave
-- Decided jobs wait for groups and for room no more; the decision may let them wait again.
WITH of_groups AS (
    DELETE FROM group_waits WHERE job = ANY($1::text[])
)
DELETE FROM room_waits WHERE job = ANY($1::text[]);

-- name: admit
-- Creates the run; the unique index permits one live or successful run for each job. With a runner, $2, the runs are
-- claimed for it; without, they are PENDING. The runs take slots, $9 to $11, of groups that are locked.
WITH moved AS (
    UPDATE jobs j SET state = CASE WHEN $2::text IS NULL THEN 'PENDING_LAUNCH' ELSE 'LAUNCHED' END,
        reason = CASE WHEN $2 IS NULL THEN n.reason ELSE 'run ' || n.run END,
        ended_at = CASE WHEN $2 IS NOT NULL THEN $1::timestamptz END, next_check_at = NULL
    FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[])
        AS n (job, run, reason, arguments, pool, turn_at)
    WHERE j.id = n.job AND j.state = 'PENDING_CONSTRAINT'
    RETURNING j.id, j.program, j.muted, n.run, n.arguments, n.pool, n.turn_at
), made AS (
    INSERT INTO runs (id, job, attempt, program, executable, arguments, state, created_at, spawn_at, runner, heartbeat_at,
        muted, pool, turn_at)
    SELECT m.run, m.id, 1, m.program, p.definition, m.arguments::jsonb,
        CASE WHEN $2 IS NULL THEN 'PENDING' ELSE 'STARTING' END, $1::timestamptz,
        CASE WHEN $2 IS NULL THEN timestamptz 'epoch' END, $2, CASE WHEN $2 IS NOT NULL THEN $1::timestamptz END,
        m.muted, m.pool, m.turn_at
    FROM moved m JOIN programs p ON p.id = m.program
), taken AS (
    INSERT INTO group_slots (group_name, run, weight) SELECT * FROM unnest($9::text[], $10::text[], $11::integer[])
)
SELECT count(*) FROM moved;

-- name: joined_by
-- The satisfaction of a job with those coalesced into it, and what it descends from.
UPDATE jobs j SET ready = n.ready::jsonb, ancestors = n.ancestors::jsonb
FROM unnest($1::text[], $2::text[], $3::text[]) AS n (job, ready, ancestors) WHERE j.id = n.job;

-- name: bound
-- The maximum duration of runs that start here.
UPDATE runs r SET deadline_at = n.deadline_at FROM unnest($1::text[], $2::timestamptz[]) AS n (run, deadline_at)
WHERE r.id = n.run;

-- name: wait
-- The job waits: checked again at that time or when woken; at the end of a run unless that cannot help.
UPDATE jobs j SET next_check_at = n.until, waiting = n.waiting::jsonb, reason = n.reason, checked_at = $1::timestamptz,
    failures = 0, spared_at = CASE WHEN n.spared THEN $1::timestamptz END
FROM unnest($2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::boolean[]) AS n (id, until, waiting, reason, spared)
WHERE j.id = n.id AND j.state = 'PENDING_CONSTRAINT'
RETURNING j.id;

-- name: join
-- The job is coalesced into an older waiting job, with the jobs coalesced into it.
WITH coalesced AS (
    UPDATE jobs j SET state = $1, joined = n.into_job, reason = n.reason, next_check_at = NULL, ended_at = $3::timestamptz
    FROM unnest($4::text[], $5::text[], $6::text[]) AS n (id, into_job, reason)
    WHERE j.id = n.id AND j.state = $2
    RETURNING j.id, n.into_job
), along AS (
    UPDATE jobs j SET joined = c.into_job FROM coalesced c WHERE j.joined = c.id
)
SELECT id FROM coalesced;

-- name: end
-- The job ends without a run.
UPDATE jobs j SET state = n.state, reason = n.reason, next_check_at = NULL, ended_at = $2::timestamptz
FROM unnest($3::text[], $4::text[], $5::text[]) AS n (id, state, reason)
WHERE j.id = n.id AND j.state = $1
RETURNING j.id;

-- name: stop_runs
-- Requests a stop of runs replaced by a newer job; an earlier request stays, unless `at_once` is new.
WITH stopped AS (
    UPDATE runs r SET stop_requested = n.why, stop_at_once = n.at_once
    FROM unnest($2::text[], $3::text[], $4::boolean[]) AS n (id, why, at_once)
    WHERE r.id = n.id AND r.state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
        AND (r.stop_requested IS NULL OR (n.at_once AND NOT r.stop_at_once))
    RETURNING r.id, n.why
)
INSERT INTO decisions (at, subject_kind, subject, action, reason)
SELECT $1::timestamptz, 'run', id, 'run.stop_requested', why FROM stopped;
