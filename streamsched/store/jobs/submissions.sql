-- Jobs that a person asked for.

-- name: known
-- A job of this id, here or in the history.
SELECT program, ready::text AS ready FROM jobs WHERE id = $1
UNION ALL
SELECT j.program, j.ready::text FROM jobs_history h, jsonb_populate_record(NULL::jobs, h.record) AS j WHERE h.id = $1;

-- name: lock_schedule
-- The current definition: a concurrent disabling waits, or is seen here.
SELECT definition, program, generation, enabled, admits, oldest_valid_generation, deleted_at FROM schedules WHERE id = $1 FOR SHARE;

-- name: program
-- Whether the program exists, and the schedules that start it.
SELECT array(
    SELECT definition::text FROM schedules s WHERE s.program = p.id AND s.deleted_at IS NULL ORDER BY s.id
) AS schedules
FROM programs p WHERE p.id = $1;

-- name: latest_number
-- The sequence of the latest satisfaction of a schedule's generation; intake inserts a batch with one creation time.
SELECT greatest(0, (
    SELECT max(sequence) FROM (
        SELECT sequence FROM jobs WHERE schedule = $1 AND generation = $2 ORDER BY created_at DESC, id DESC LIMIT 2000
    ) AS latest
), (SELECT sequence FROM jobs_spent WHERE schedule = $1 AND generation = $2));

-- name: former
-- A job that may be repeated, and its runs, first attempt first, with their states. All that moved to the history ended.
SELECT program, ready::text AS ready, array(SELECT id FROM runs r WHERE r.job = j.id ORDER BY attempt) AS runs,
    array(SELECT state FROM runs r WHERE r.job = j.id ORDER BY attempt) AS states
FROM jobs j WHERE id = $1
UNION ALL
SELECT j.program, j.ready::text, h.runs, '{}'
FROM jobs_history h, jsonb_populate_record(NULL::jobs, h.record) AS j WHERE h.id = $1;

-- name: submit
-- The jobs of submissions, waiting, in the queues of their pools, with history. An existing job stays as it is and is not
-- returned. The repeated job of a rerun has it in its history too. The pool of a schedule is in its row; that of a
-- program is given, with priority 0. The column satisfied_at of a job is ReadyJob.queued_at.
WITH incoming AS (
    SELECT i.*, coalesce(s.pool, i.program_pool) AS pool, coalesce(s.priority_set, s.priority, 0) AS priority
    FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[],
        $10::text[], $11::boolean[], $12::timestamptz[], $13::text[], $14::text[])
        AS i (id, schedule, program, generation, sequence, ready, program_pool, origin, former, muted, queued_at, backfill,
            ancestors)
    LEFT JOIN schedules s ON s.id = i.schedule
), inserted AS (
    INSERT INTO jobs (id, schedule, generation, sequence, program, state, satisfied_at, created_at, next_check_at, ready,
        submitted, muted, backfill, ancestors)
    SELECT id, schedule, generation, sequence, program, 'PENDING_CONSTRAINT', queued_at, $9::timestamptz,
        timestamptz 'epoch', ready::jsonb, true, muted, backfill, ancestors::jsonb
    FROM incoming
    ON CONFLICT (id) DO NOTHING
    RETURNING id
), recorded AS (
    INSERT INTO decisions (at, subject_kind, subject, action, reason)
    SELECT $9, 'job', id, 'job.submitted', origin FROM inserted JOIN incoming USING (id)
    UNION ALL
    SELECT $9, 'job', former, 'job.rerun', 'as ' || id FROM inserted JOIN incoming USING (id) WHERE former IS NOT NULL
), lined AS (
    INSERT INTO lines (job, pool, turn_at, sequence)
    SELECT i.id, i.pool, i.queued_at - make_interval(secs => i.priority * coalesce(g.age_s, 60)), i.sequence
    FROM inserted d JOIN incoming i USING (id) LEFT JOIN groups g ON g.name = 'pool:' || i.pool
    WHERE i.pool IS NOT NULL
    ON CONFLICT DO NOTHING
), rung AS (
    SELECT pg_notify('launcher', '') FROM inserted LIMIT 1
)
SELECT id FROM inserted WHERE EXISTS (SELECT FROM rung);
