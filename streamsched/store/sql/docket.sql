-- name: due
-- Programs with due jobs, those due longest first; bounded, whatever the backlog.
SELECT program FROM (
    SELECT program, next_check_at FROM jobs
    WHERE state = 'PENDING_CONSTRAINT' AND next_check_at <= $1
    ORDER BY next_check_at
    LIMIT 1000
) AS first
GROUP BY program ORDER BY min(next_check_at) LIMIT $2;

-- name: next_due
-- When the next waiting job wants to be looked at.
SELECT min(next_check_at) FROM jobs WHERE state = 'PENDING_CONSTRAINT' AND next_check_at IS NOT NULL;

-- name: lock_program
-- Whoever holds this row decides about the program: nobody else admits, starts by hand, or wakes meanwhile.
SELECT definition, EXISTS (SELECT FROM meters WHERE scope = 'program ' || p.id) AS metered
FROM programs p WHERE id = $1 FOR UPDATE SKIP LOCKED;

-- name: program_exists
-- Tells a locked program from a removed one.
SELECT EXISTS (SELECT FROM programs WHERE id = $1);

-- name: due_of_program
-- The due jobs of a program, oldest satisfaction first.
SELECT id, schedule FROM jobs
WHERE program = $1 AND state = 'PENDING_CONSTRAINT' AND next_check_at <= $2
ORDER BY satisfied_at, sequence
LIMIT $3;

-- name: lock_schedules
-- The definitions that stand, held until the rulings are stored: disabling waits for us, or we see it done.
SELECT id, definition, generation, stands_from, enabled, deleted_at, priority_set
FROM schedules WHERE id = ANY($1::text[]) ORDER BY id FOR SHARE;

-- name: lock_cases
-- The jobs to rule on, as they are after the wait for their locks. A change that keeps may have given one to another
-- program meanwhile.
SELECT id, waiting, told, told_why, ready::text AS ready FROM jobs
WHERE id = ANY($1::text[]) AND state = 'PENDING_CONSTRAINT' AND program = $2
ORDER BY satisfied_at, generation, sequence
FOR UPDATE;

-- name: siblings
-- All that wait of schedules of which only the newest job goes on, due or not.
SELECT id FROM jobs WHERE schedule = ANY($1::text[]) AND state = 'PENDING_CONSTRAINT';

-- name: joiners
-- What joined these jobs while they waited, in order.
SELECT joined, ready::text AS ready FROM jobs WHERE joined = ANY($1::text[]) ORDER BY joined, generation, sequence;

-- name: elders
-- The waiting job others of its lane join: the eldest that stands. A lane is a schedule, or a key of one that correlates.
SELECT DISTINCT ON (j.schedule, coalesce(j.ready ->> 'key', ''))
    j.schedule, coalesce(j.ready ->> 'key', '') AS key, j.generation, j.sequence
FROM jobs j JOIN schedules s ON s.id = j.schedule
WHERE j.schedule = ANY($1::text[]) AND j.state = 'PENDING_CONSTRAINT' AND j.waiting IS NOT NULL
    AND j.generation >= s.stands_from
ORDER BY j.schedule, coalesce(j.ready ->> 'key', ''), j.generation, j.sequence;

-- name: facts
-- What constraints ask about the program.
SELECT array(
        SELECT id FROM runs
        WHERE program = $1 AND state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
        ORDER BY created_at, id
    ) AS active_runs, (
        SELECT ended_at FROM runs WHERE program = $1 AND state = 'COMPLETED' ORDER BY ended_at DESC LIMIT 1
    ) AS last_completed_at;

-- name: own_runs
-- The non-terminal runs that these schedules started, by lane, oldest first.
SELECT j.schedule, coalesce(j.ready ->> 'key', '') AS key, array_agg(r.id ORDER BY r.created_at, r.id) AS runs
FROM runs r JOIN jobs j ON j.id = r.job
WHERE r.program = $1 AND r.state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED') AND j.schedule = ANY($2::text[])
GROUP BY j.schedule, coalesce(j.ready ->> 'key', '');

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

-- name: admit
-- Ready: its run exists from here on. `ready` is given when others joined.
UPDATE jobs j SET state = $1, reason = n.reason, next_check_at = NULL, ready = coalesce(n.ready::jsonb, j.ready)
FROM unnest($3::text[], $4::text[], $5::text[]) AS n (id, reason, ready)
WHERE j.id = n.id AND j.state = $2
RETURNING j.id;

-- name: make_runs
-- The runs of admitted jobs; the unique index lets one live or successful run of a job exist.
INSERT INTO runs (id, job, attempt, program, executable, arguments, state, created_at, spawn_at)
SELECT n.id, n.job, 1, $3, $4::jsonb, n.arguments::jsonb, $1, $2::timestamptz, timestamptz 'epoch'
FROM unnest($5::text[], $6::text[], $7::text[]) AS n (id, job, arguments);

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

-- name: record
-- History.
INSERT INTO decisions (at, subject_kind, subject, action, reason)
SELECT $1::timestamptz, n.kind, n.subject, n.action, n.reason
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS n (kind, subject, action, reason);

-- name: defer
-- Cannot be decided now: the due jobs of a program are put off and say why.
WITH deferred AS (
    UPDATE jobs SET next_check_at = $4::timestamptz, reason = $2
    WHERE program = $1 AND state = 'PENDING_CONSTRAINT' AND next_check_at <= $3
    RETURNING id
)
INSERT INTO decisions (at, subject_kind, subject, action, reason)
SELECT $3::timestamptz, 'job', id, 'job.deferred', $2 FROM deferred;

-- name: look
-- A waiting job is looked at again.
WITH woken AS (
    UPDATE jobs SET next_check_at = timestamptz 'epoch' WHERE id = $1 AND state = 'PENDING_CONSTRAINT' RETURNING id
)
SELECT pg_notify('launcher', '') FROM woken;

-- name: recall
-- The sweep behind the wake-ups: jobs nobody woke since $1, and jobs whose schedule moved on without telling.
UPDATE jobs SET next_check_at = timestamptz 'epoch'
WHERE id IN (
    SELECT j.id FROM jobs j LEFT JOIN schedules s ON s.id = j.schedule
    WHERE j.state = 'PENDING_CONSTRAINT' AND j.next_check_at IS DISTINCT FROM timestamptz 'epoch'
        AND ((j.next_check_at IS NULL AND j.checked_at <= $1::timestamptz)
            OR s.id IS NULL OR s.deleted_at IS NOT NULL OR j.generation < s.stands_from)
    LIMIT 10000
    FOR UPDATE OF j SKIP LOCKED
);
