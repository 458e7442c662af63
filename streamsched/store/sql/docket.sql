-- name: due
-- Programs with due jobs, those due longest first, and how many those are, as far as that matters; bounded, whatever the
-- backlog. It skips from one program of an instant to the next, so that many jobs of one program, all to be looked at at
-- once, hide no other program.
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
-- When the next waiting job wants to be looked at.
SELECT min(next_check_at) FROM jobs WHERE state = 'PENDING_CONSTRAINT' AND next_check_at IS NOT NULL;

-- name: lock_programs
-- Whoever holds these rows decides about the programs: nobody else admits, starts by hand, or wakes meanwhile. Those that
-- another holds are left out.
SELECT id, definition::text AS definition, EXISTS (SELECT FROM meters WHERE scope = 'program ' || p.id) AS metered
FROM programs p WHERE id = ANY($1::text[]) ORDER BY id FOR UPDATE SKIP LOCKED;

-- name: wait_a_second
-- For a lock, no longer.
SELECT set_config('lock_timeout', '1s', true);

-- name: wait_as_ever
-- For locks.
SELECT set_config('lock_timeout', '0', true);

-- name: wait_for_program
-- Until nobody else has it, and then we do.
SELECT id FROM programs WHERE id = $1 FOR UPDATE;

-- name: standing_programs
-- Tells those that another holds from those that were removed.
SELECT id FROM programs WHERE id = ANY($1::text[]);

-- name: due_of_programs
-- The due jobs of each program, oldest satisfactions first.
SELECT due.* FROM unnest($1::text[]) AS asked (program) CROSS JOIN LATERAL (
    SELECT id, schedule FROM jobs
    WHERE program = asked.program AND state = 'PENDING_CONSTRAINT' AND next_check_at <= $2
    ORDER BY satisfied_at, sequence
    LIMIT $3
) AS due;

-- name: lock_schedules
-- The definitions that stand, held until the rulings are stored: disabling waits for us, or we see it done.
SELECT id, definition::text AS definition, generation, stands_from, enabled, deleted_at, priority_set
FROM schedules WHERE id = ANY($1::text[]) ORDER BY id FOR SHARE;

-- name: lock_cases
-- The jobs to rule on, as they are after the wait for their locks. A change that keeps may have given one to another
-- program meanwhile.
SELECT id, program, waiting, told, told_why, ready::text AS ready FROM jobs
WHERE id = ANY($1::text[]) AND state = 'PENDING_CONSTRAINT' AND program = ANY($2::text[])
ORDER BY satisfied_at, generation, sequence
FOR UPDATE;

-- name: siblings
-- All that wait of schedules of which only the newest job goes on, due or not.
SELECT id FROM jobs WHERE schedule = ANY($1::text[]) AND state = 'PENDING_CONSTRAINT';

-- name: joiners
-- What joined these jobs while they waited, in order; read in portions, for it may be what came in days.
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
-- What constraints ask about programs.
SELECT asked.program, array(
        SELECT id FROM runs r
        WHERE r.program = asked.program AND state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
        ORDER BY created_at, id
    ) AS active_runs, (
        SELECT ended_at FROM runs r WHERE r.program = asked.program AND state = 'COMPLETED' ORDER BY ended_at DESC LIMIT 1
    ) AS last_completed_at
FROM unnest($1::text[]) AS asked (program);

-- name: own_runs
-- The non-terminal runs that these schedules started, by lane, oldest first.
SELECT j.schedule, coalesce(j.ready ->> 'key', '') AS key, array_agg(r.id ORDER BY r.created_at, r.id) AS runs
FROM runs r JOIN jobs j ON j.id = r.job
WHERE r.program = ANY($1::text[]) AND r.state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
    AND j.schedule = ANY($2::text[])
GROUP BY j.schedule, coalesce(j.ready ->> 'key', '');

-- name: defer
-- Cannot be decided now: the due jobs of a program are put off and say why.
WITH deferred AS (
    UPDATE jobs SET next_check_at = $4::timestamptz, reason = $2
    WHERE program = $1 AND state = 'PENDING_CONSTRAINT' AND next_check_at <= $3
    RETURNING id
), recorded AS (
    INSERT INTO decisions (at, subject_kind, subject, action, reason)
    SELECT $3::timestamptz, 'job', id, 'job.deferred', $2 FROM deferred
)
SELECT id FROM deferred;

-- name: look
-- A waiting job is looked at again.
WITH woken AS (
    UPDATE jobs SET next_check_at = timestamptz 'epoch' WHERE id = $1 AND state = 'PENDING_CONSTRAINT' RETURNING id
)
SELECT pg_notify('launcher', '') FROM woken;

-- name: recall
-- The sweep behind the wake-ups: jobs nobody woke since $1, also those that look by themselves only when they have waited
-- too long; and jobs whose schedule moved on without telling.
UPDATE jobs SET next_check_at = timestamptz 'epoch'
WHERE id IN (
    SELECT j.id FROM jobs j LEFT JOIN schedules s ON s.id = j.schedule
    WHERE j.state = 'PENDING_CONSTRAINT' AND j.next_check_at IS DISTINCT FROM timestamptz 'epoch'
        AND ((j.checked_at <= $1::timestamptz AND (j.next_check_at IS NULL
                OR (j.next_check_at > $1::timestamptz + interval '2 minutes'
                    AND (j.spared_at IS DISTINCT FROM j.checked_at
                        OR EXISTS (SELECT FROM group_waits w WHERE w.job = j.id AND w.slots_only)
                        OR EXISTS (SELECT FROM lines l WHERE l.job = j.id)
                        OR EXISTS (SELECT FROM gate_waits w WHERE w.job = j.id)))))
            OR s.id IS NULL OR s.deleted_at IS NOT NULL OR j.generation < s.stands_from)
    LIMIT 10000
    FOR UPDATE OF j SKIP LOCKED
);
