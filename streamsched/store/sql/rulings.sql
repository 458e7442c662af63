-- What rulings change. The states repeat domain.job.TRANSITIONS and domain.run.TRANSITIONS.

-- name: admit
-- Ready: its run exists from here on, and the unique index lets one live or successful run of a job exist. Those that
-- begin here are claimed by $2 with it. `ready` is given when others joined.
WITH admitted AS (
    SELECT * FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::boolean[],
        $10::timestamptz[]) AS n (job, run, program, reason, ready, arguments, begins, deadline_at)
), moved AS (
    UPDATE jobs j SET state = CASE WHEN n.begins THEN 'LAUNCHED' ELSE 'PENDING_LAUNCH' END,
        reason = CASE WHEN n.begins THEN 'run ' || n.run ELSE n.reason END,
        ended_at = CASE WHEN n.begins THEN $1::timestamptz END,
        next_check_at = NULL, ready = coalesce(n.ready::jsonb, j.ready)
    FROM admitted n WHERE j.id = n.job AND j.state = 'PENDING_CONSTRAINT'
    RETURNING j.id
), made AS (
    INSERT INTO runs (id, job, attempt, program, executable, arguments, state, created_at, spawn_at, runner, heartbeat_at,
        deadline_at)
    SELECT n.run, n.job, 1, n.program, p.definition, n.arguments::jsonb,
        CASE WHEN n.begins THEN 'STARTING' ELSE 'PENDING' END, $1::timestamptz,
        CASE WHEN NOT n.begins THEN timestamptz 'epoch' END, CASE WHEN n.begins THEN $2 END,
        CASE WHEN n.begins THEN $1::timestamptz END, n.deadline_at
    FROM admitted n JOIN programs p ON p.id = n.program
)
SELECT count(*) FROM moved;

-- name: wait
-- Told to wait: looked at again at that time, or when woken.
UPDATE jobs j SET next_check_at = n.until, waiting = n.waiting::jsonb, reason = n.reason, checked_at = $1::timestamptz
FROM unnest($2::text[], $3::timestamptz[], $4::text[], $5::text[]) AS n (id, until, waiting, reason)
WHERE j.id = n.id AND j.state = 'PENDING_CONSTRAINT'
RETURNING j.id;

-- name: join
-- Joined an older waiting job; whoever joined it goes along.
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
-- Ends without a run.
UPDATE jobs j SET state = n.state, reason = n.reason, next_check_at = NULL, ended_at = $2::timestamptz
FROM unnest($3::text[], $4::text[], $5::text[]) AS n (id, state, reason)
WHERE j.id = n.id AND j.state = $1
RETURNING j.id;

-- name: stop_runs
-- Runs that a newer job wants to end; those whose end somebody wants already are left alone, unless at once is new.
WITH stopped AS (
    UPDATE runs r SET stop_requested = n.why, stop_at_once = n.at_once
    FROM unnest($2::text[], $3::text[], $4::boolean[]) AS n (id, why, at_once)
    WHERE r.id = n.id AND r.state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
        AND (r.stop_requested IS NULL OR (n.at_once AND NOT r.stop_at_once))
    RETURNING r.id, n.why
)
INSERT INTO decisions (at, subject_kind, subject, action, reason)
SELECT $1::timestamptz, 'run', id, 'run.stop_requested', why FROM stopped;
