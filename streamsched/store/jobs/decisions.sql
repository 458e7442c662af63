-- name: due
-- Programs with due jobs, those due longest first, and how many those are, up to a maximum; bounded for any backlog. It
-- skips from one program of an instant to the next, so that many due jobs of one program hide no other program.
WITH RECURSIVE step AS (
    (SELECT next_check_at, program FROM jobs
    WHERE state = 'PENDING_CONSTRAINT' AND next_check_at <= $1
    ORDER BY next_check_at, program
    LIMIT 1)
    UNION ALL
    SELECT following.* FROM step CROSS JOIN LATERAL (
        SELECT next_check_at, program FROM jobs
        WHERE state = 'PENDING_CONSTRAINT' AND next_check_at <= $1
            AND (next_check_at, program) > (step.next_check_at, step.program)
        ORDER BY next_check_at, program
        LIMIT 1
    ) AS following
), first AS (
    SELECT * FROM step LIMIT 500
)
SELECT program, sum(found.jobs)::bigint AS jobs FROM first CROSS JOIN LATERAL (
    SELECT count(*) AS jobs FROM (
        SELECT FROM jobs
        WHERE state = 'PENDING_CONSTRAINT' AND next_check_at = first.next_check_at AND program = first.program
        LIMIT 128
    ) AS of_it
) AS found
GROUP BY program ORDER BY min(next_check_at) LIMIT $2;

-- name: next_due
-- The earliest next check of a waiting job.
SELECT min(next_check_at) FROM jobs WHERE state = 'PENDING_CONSTRAINT' AND next_check_at IS NOT NULL;

-- name: lock_programs
-- The holder of these locks decides about the programs: no other transaction admits, starts manually or wakes. Programs
-- locked by another transaction are skipped. With the preferences of their namespaces, and the jobs of each that were due
-- just before, oldest satisfactions first, with their schedules.
SELECT id, definition::text AS definition,
    (SELECT arguments::text FROM preferences n WHERE n.namespace = split_part(p.id, '.', 1)) AS preferences,
    EXISTS (SELECT FROM meters WHERE scope = 'program ' || p.id) AS metered,
    EXISTS (SELECT FROM groups g WHERE g.name = 'quota:' || split_part(p.id, '.', 1) AND g.slots IS NOT NULL) AS limited,
    due.jobs, due.schedules
FROM (
    SELECT id, definition FROM programs WHERE id = ANY($1::text[]) ORDER BY id FOR UPDATE SKIP LOCKED
) AS p CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(first.id), '{}') AS jobs, coalesce(array_agg(first.schedule), '{}') AS schedules FROM (
        SELECT j.id, j.schedule FROM jobs j
        WHERE j.program = p.id AND j.state = 'PENDING_CONSTRAINT' AND j.next_check_at <= $2
        ORDER BY j.satisfied_at, j.sequence
        LIMIT $3
    ) AS first
) AS due;

-- name: wait_a_second
-- The timeout of the next lock.
SELECT set_config('lock_timeout', '1s', true);

-- name: reset_lock_timeout
-- No lock timeout.
SELECT set_config('lock_timeout', '0', true);

-- name: wait_for_program
-- Waits for the lock.
SELECT id FROM programs WHERE id = $1 FOR UPDATE;

-- name: existing_programs
-- Distinguishes programs locked by another transaction from removed ones.
SELECT id FROM programs WHERE id = ANY($1::text[]);

-- name: due_of_programs
-- The due jobs of each of these programs, which were removed, oldest satisfactions first.
SELECT due.* FROM unnest($1::text[]) AS asked (program) CROSS JOIN LATERAL (
    SELECT id, schedule FROM jobs
    WHERE program = asked.program AND state = 'PENDING_CONSTRAINT' AND next_check_at <= $2
    ORDER BY satisfied_at, sequence
    LIMIT $3
) AS due;

-- name: lock_schedules
-- The current definitions, locked until the decisions are stored: a concurrent disabling waits, or is seen here.
SELECT id, definition::text AS definition, generation, oldest_valid_generation, admits, deleted_at, priority_set, resumed_at
FROM schedules WHERE id = ANY($1::text[]) ORDER BY id FOR SHARE;

-- name: lock_jobs
-- The jobs to decide, as they are once locked, and whether others are coalesced into them. A change that keeps jobs may
-- have moved one to another program meanwhile.
SELECT id, program, schedule, waiting, command, command_reason, ready::text AS ready,
    EXISTS (SELECT FROM jobs c WHERE c.joined = jobs.id) AS coalesced
FROM jobs
WHERE id = ANY($1::text[]) AND state = 'PENDING_CONSTRAINT' AND program = ANY($2::text[])
ORDER BY satisfied_at, generation, sequence
FOR UPDATE;

-- name: siblings
-- All waiting jobs, due or not, of schedules of which only the newest job continues.
SELECT id FROM jobs WHERE schedule = ANY($1::text[]) AND state = 'PENDING_CONSTRAINT';

-- name: coalesced
-- The satisfactions coalesced into these jobs, in order; read in batches, because they may be many.
SELECT joined, ready::text AS ready FROM jobs WHERE joined = ANY($1::text[]) ORDER BY joined, generation, sequence;

-- name: oldest_waiting_jobs
-- For each schedule key the oldest valid waiting job, into which others are coalesced ($1) or for which they are skipped
-- ($2). A submission with arguments is not coalesced; a rerun and a job of a backfill or a backlog are neither. Ordered
-- as domain.jobs.job.JobNumber.
SELECT DISTINCT ON (j.schedule, coalesce(j.ready ->> 'key', ''))
    j.schedule, coalesce(j.ready ->> 'key', '') AS key, j.generation, j.sequence, j.submitted, j.satisfied_at, j.id
FROM jobs j JOIN schedules s ON s.id = j.schedule
WHERE j.schedule = ANY($1::text[] || $2::text[]) AND j.state = 'PENDING_CONSTRAINT' AND j.waiting IS NOT NULL
    AND j.generation >= s.oldest_valid_generation
    AND NOT j.ready ? 'backlog'
    AND j.backfill IS NULL AND NOT (j.submitted AND (j.ready -> 'submission' ? 'rerun'
        OR (j.schedule = ANY($1) AND j.ready -> 'submission' ? 'arguments')))
ORDER BY j.schedule, coalesce(j.ready ->> 'key', ''), j.generation, j.sequence, j.submitted,
    CASE WHEN j.submitted THEN j.satisfied_at END, j.id;

-- name: program_schedules
-- The definitions of the schedules of programs, which limit submissions to a program.
SELECT p.id AS program, array(
    SELECT definition::text FROM schedules s WHERE s.program = p.id AND s.deleted_at IS NULL ORDER BY s.id
) AS definitions
FROM programs p WHERE p.id = ANY($1::text[]);

-- name: facts
-- The facts that constraints need about programs.
SELECT asked.program, array(
        SELECT id FROM runs r
        WHERE r.program = asked.program AND state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
        ORDER BY created_at, id
    ) AS active_runs, (
        SELECT ended_at FROM runs r WHERE r.program = asked.program AND state = 'COMPLETED' ORDER BY ended_at DESC LIMIT 1
    ) AS last_completed_at
FROM unnest($1::text[]) AS asked (program);

-- name: own_runs
-- The non-terminal runs that these schedules started, by schedule key, oldest first; `live`: without those of backfills.
SELECT j.schedule, coalesce(j.ready ->> 'key', '') AS key, array_agg(r.id ORDER BY r.created_at, r.id) AS runs,
    coalesce(array_agg(r.id ORDER BY r.created_at, r.id) FILTER (WHERE j.backfill IS NULL), '{}') AS live
FROM runs r JOIN jobs j ON j.id = r.job
WHERE r.program = ANY($1::text[]) AND r.state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
    AND j.schedule = ANY($2::text[])
GROUP BY j.schedule, coalesce(j.ready ->> 'key', '');

-- name: due_jobs
-- The due jobs of one program, oldest satisfactions first.
SELECT id FROM jobs
WHERE program = $1 AND state = 'PENDING_CONSTRAINT' AND next_check_at <= $2
ORDER BY satisfied_at, sequence
LIMIT $3;

-- name: due_of_jobs
-- Those of these jobs that are due, oldest satisfactions first.
SELECT id, schedule FROM jobs
WHERE id = ANY($1::text[]) AND program = ANY($2::text[]) AND state = 'PENDING_CONSTRAINT' AND next_check_at <= $3
ORDER BY satisfied_at, sequence;

-- name: put_off
-- Jobs that cannot be decided are retried after 1, 2, 4 … 60 minutes, with the reason. Ends of runs do not wake them.
WITH failed AS (
    UPDATE jobs j SET failures = j.failures + 1, reason = n.reason, checked_at = $1::timestamptz,
        spared_at = $1::timestamptz,
        next_check_at = $1::timestamptz + least(interval '1 hour', interval '1 minute' * 2 ^ least(j.failures, 6))
    FROM unnest($2::text[], $3::text[]) AS n (id, reason)
    WHERE j.id = n.id AND j.state = 'PENDING_CONSTRAINT'
    RETURNING j.id, j.reason
), recorded AS (
    INSERT INTO decisions (at, subject_kind, subject, action, reason)
    SELECT $1::timestamptz, 'job', id, 'job.deferred', reason FROM failed
)
SELECT id FROM failed;

-- name: make_due
-- Makes a waiting job due.
WITH woken AS (
    UPDATE jobs SET next_check_at = timestamptz 'epoch' WHERE id = $1 AND state = 'PENDING_CONSTRAINT' RETURNING id
)
SELECT pg_notify('launcher', '') FROM woken;

-- name: recheck_all
-- The sweep in case a wake-up was lost: jobs not checked since $1, those with a next check only when it is far away;
-- and jobs whose schedule changed, or program was removed, without waking them.
UPDATE jobs SET next_check_at = timestamptz 'epoch'
WHERE id IN (
    SELECT j.id FROM jobs j LEFT JOIN schedules s ON s.id = j.schedule
    WHERE j.state = 'PENDING_CONSTRAINT' AND j.next_check_at IS DISTINCT FROM timestamptz 'epoch'
        AND ((j.checked_at <= $1::timestamptz AND j.failures = 0 AND (j.next_check_at IS NULL
                OR (j.next_check_at > $1::timestamptz + interval '2 minutes'
                    AND (j.spared_at IS DISTINCT FROM j.checked_at
                        OR EXISTS (SELECT FROM group_waits w WHERE w.job = j.id AND w.slots_only)
                        OR EXISTS (SELECT FROM lines l WHERE l.job = j.id)
                        OR EXISTS (SELECT FROM gate_waits w WHERE w.job = j.id)))))
            OR s.deleted_at IS NOT NULL OR j.generation < s.oldest_valid_generation
            OR (s.id IS NULL AND (j.schedule IS NOT NULL OR NOT EXISTS (SELECT FROM programs p WHERE p.id = j.program))))
    LIMIT 10000
    FOR UPDATE OF j SKIP LOCKED
);

-- name: past_runs
-- The newest runs of a program, newest first.
SELECT id, state, created_at, started_at, ended_at FROM runs WHERE program = $1 ORDER BY created_at DESC LIMIT $2;
