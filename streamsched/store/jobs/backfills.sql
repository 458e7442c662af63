-- Backfills and their items.

-- name: schedule
-- The current definition, its program's, and the preferences of the program's namespace.
SELECT s.definition::text AS definition, s.generation, s.enabled, s.oldest_valid_generation, s.created_at,
    p.definition::text AS program_definition,
    (SELECT arguments::text FROM preferences n WHERE n.namespace = split_part(p.id, '.', 1)) AS preferences
FROM schedules s JOIN programs p ON p.id = s.program
WHERE s.id = $1 AND s.deleted_at IS NULL;

-- name: known
-- For each of the marks $5 the latest of the newest $2 jobs of a schedule that has it, without jobs that ended without a
-- run; the states of the job and of its last run. $3 is the path to the marks of a satisfaction, $4 its variables.
WITH examined AS (
    (SELECT j.id, j.created_at, j.state, j.joined, j.ready, NULL::timestamptz AS done_at, NULL::text[] AS runs
    FROM jobs j WHERE j.schedule = $1
    ORDER BY j.created_at DESC, j.id DESC LIMIT $2)
    UNION ALL
    (SELECT h.id, h.created_at, h.state, NULL, h.record -> 'ready', h.done_at, h.runs
    FROM jobs_history h WHERE h.schedule = $1
    ORDER BY h.created_at DESC, h.id DESC LIMIT $2)
), marked AS (
    SELECT e.*, wanted.mark
    FROM examined e
    CROSS JOIN LATERAL jsonb_path_query(e.ready, $3::text::jsonpath, $4::jsonb) AS found (value)
    JOIN unnest($5::text[]) AS wanted (mark) ON wanted.mark = found.value #>> '{}'
)
SELECT DISTINCT ON (m.mark) m.mark, m.id, coalesce(elder.state, m.state) AS state, coalesce(now_run.state, old_run.state) AS run
FROM marked m
LEFT JOIN jobs elder ON elder.id = m.joined
LEFT JOIN LATERAL (
    SELECT r.state FROM runs r WHERE m.done_at IS NULL AND r.job = coalesce(m.joined, m.id) ORDER BY r.attempt DESC LIMIT 1
) AS now_run ON true
LEFT JOIN LATERAL (
    SELECT r.state FROM runs_history r WHERE r.id = m.runs[cardinality(m.runs)] AND r.done_at = m.done_at LIMIT 1
) AS old_run ON true
WHERE coalesce(elder.state, m.state) IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH')
    OR coalesce(now_run.state, old_run.state) IS NOT NULL
ORDER BY m.mark, m.created_at DESC, m.id DESC;

-- name: unfinished
-- How many backfills have not ended.
SELECT count(*) FROM backfills WHERE state IN ('RUNNING', 'PAUSED');

-- name: insert
-- A backfill without its items, with its history; one of this id stays as it is and is not returned.
WITH inserted AS (
    INSERT INTO backfills (id, schedule, request, state, max_active, newest_first, items, skipped, created_at, changed_at,
        fed_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, 'epoch')
    ON CONFLICT (id) DO NOTHING
    RETURNING id
), recorded AS (
    INSERT INTO decisions (at, subject_kind, subject, action, reason) SELECT $9, 'job', id, 'backfill.started', $10 FROM inserted
), rung AS (
    SELECT pg_notify('backfills', '') FROM inserted
)
SELECT id FROM inserted WHERE EXISTS (SELECT FROM rung);

-- name: insert_items
-- Its items, waiting.
INSERT INTO backfill_items (backfill, number, state, ready)
SELECT $1, n.number, $2, n.ready::jsonb FROM unnest($3::integer[], $4::text[]) AS n (number, ready);

-- name: get
-- One backfill.
SELECT id, schedule, request, state, reason, items, skipped, active, succeeded, failed, dropped, created_at, changed_at,
    ended_at, max_active, newest_first
FROM backfills WHERE id = $1;

-- name: lock
-- One backfill, locked: no feeding is concurrent.
SELECT id, schedule, request, state, reason, items, skipped, active, succeeded, failed, dropped, created_at, changed_at,
    ended_at, max_active, newest_first
FROM backfills WHERE id = $1 FOR UPDATE;

-- name: recent
-- The newest, of all schedules and namespaces ($5) when none is named; older than the one created at $3 with id $4.
SELECT id, schedule, request, state, reason, items, skipped, active, succeeded, failed, dropped, created_at, changed_at,
    ended_at, max_active, newest_first
FROM backfills
WHERE ($1::text IS NULL OR schedule = $1) AND (created_at, id) < ($3::timestamptz, $4::text)
    AND ($5::text IS NULL OR starts_with(id, $5 || '.'))
ORDER BY created_at DESC, id DESC
LIMIT $2;

-- name: items
-- Items after number $3, of all states where none is named, with the state of their job and its last run.
SELECT i.number, i.state, i.ready::text AS ready, coalesce(r.state, j.state, '') AS outcome,
    coalesce(r.reason, j.reason, '') AS reason
FROM (
    SELECT * FROM backfill_items
    WHERE backfill = $1 AND number > $3 AND (cardinality($2::text[]) = 0 OR state = ANY ($2::text[]))
    ORDER BY number
    LIMIT $4
) AS i
LEFT JOIN jobs j ON j.id = i.backfill || '.' || i.number
LEFT JOIN LATERAL (SELECT * FROM runs WHERE job = j.id ORDER BY attempt DESC LIMIT 1) AS r ON true
ORDER BY i.number;

-- name: change
-- The transition of a backfill, with its history.
WITH changed AS (
    UPDATE backfills SET state = $2, reason = $3, changed_at = $4::timestamptz, ended_at = $5::timestamptz WHERE id = $1
    RETURNING *
), recorded AS (
    INSERT INTO decisions (at, subject_kind, subject, action, reason) SELECT $4, 'job', id, $6, $3 FROM changed
), rung AS (
    SELECT pg_notify('backfills', '') FROM changed
)
SELECT id, schedule, request, state, reason, items, skipped, active, succeeded, failed, dropped, created_at, changed_at,
    ended_at, max_active, newest_first
FROM changed WHERE EXISTS (SELECT FROM rung);

-- name: lock_program
-- Waits for a decision about the program of a schedule in progress.
SELECT p.id FROM programs p JOIN schedules s ON s.program = p.id WHERE s.id = $1 FOR UPDATE OF p;

-- name: command
-- A command on the jobs of a backfill that wait for constraints, which become due: $2 with reason $3, or NULL to release
-- those held for reason $4. A person's command stays, unless $2 is `cancel`.
WITH commanded AS (
    UPDATE jobs SET command = $2, command_reason = $3, next_check_at = timestamptz 'epoch'
    WHERE id IN (SELECT backfill || '.' || number FROM backfill_items WHERE backfill = $1 AND state = 'ACTIVE')
        AND state = 'PENDING_CONSTRAINT'
        AND CASE WHEN $2::text IS NULL THEN command = 'hold' AND command_reason = $4 ELSE command IS NULL OR $2 = 'cancel' END
    RETURNING id
), recorded AS (
    INSERT INTO decisions (at, subject_kind, subject, action, reason)
    SELECT $5::timestamptz, 'job', id, $6, coalesce($3, $4) FROM commanded
)
SELECT pg_notify('launcher', '') FROM commanded LIMIT 1;

-- name: to_feed
-- Backfills that are running or have active jobs, those not checked for longest first, locked; others feed the rest.
SELECT id, schedule, request, state, reason, items, skipped, active, succeeded, failed, dropped, created_at, changed_at,
    ended_at, max_active, newest_first
FROM backfills WHERE state = 'RUNNING' OR active > 0 ORDER BY fed_at, id LIMIT $1 FOR UPDATE SKIP LOCKED;

-- name: any_to_feed
-- Whether there is one.
SELECT EXISTS (SELECT FROM backfills WHERE state = 'RUNNING' OR active > 0);

-- name: ended
-- The active items of backfills whose job has ended with all its runs, or is no longer among the jobs (NULL).
SELECT i.backfill, i.number, j.state, (SELECT r.state FROM runs r WHERE r.job = j.id ORDER BY r.attempt DESC LIMIT 1) AS run
FROM backfill_items i LEFT JOIN jobs j ON j.id = i.backfill || '.' || i.number
WHERE i.backfill = ANY ($1::text[]) AND i.state = 'ACTIVE'
    AND (j.id IS NULL OR (j.ended_at IS NOT NULL AND NOT EXISTS (SELECT FROM runs r WHERE r.job = j.id AND r.ended_at IS NULL)));

-- name: ended_before
-- The same of jobs that moved to the history.
SELECT h.id, h.state, (
    SELECT r.state FROM runs_history r WHERE r.id = h.runs[cardinality(h.runs)] AND r.done_at = h.done_at LIMIT 1
) AS run
FROM jobs_history h WHERE h.id = ANY ($1::text[]);

-- name: failing
-- Backfills with at least $2 failed items after the last that succeeded, in the order in which they are made, whose runs
-- ended since the backfill is in its state; and the last of them.
SELECT b.id, f.last FROM unnest($1::text[], $2::integer[]) AS n (backfill, most)
JOIN backfills b ON b.id = n.backfill
CROSS JOIN LATERAL (
    SELECT CASE WHEN b.newest_first THEN 1 + coalesce((SELECT max(number) FROM backfill_items WHERE backfill = b.id), 0)
        ELSE 0 END AS base, CASE WHEN b.newest_first THEN -1 ELSE 1 END AS sign
) AS o
CROSS JOIN LATERAL (
    SELECT count(*) AS times, max(i.number * o.sign) * o.sign AS last
    FROM (
        SELECT number FROM backfill_items
        WHERE backfill = b.id AND state = 'FAILED' AND number * o.sign > coalesce((
            SELECT max(s.number * o.sign) FROM backfill_items s WHERE s.backfill = b.id AND s.state = 'SUCCEEDED'
        ), -o.base)
        ORDER BY number * o.sign DESC LIMIT n.most
    ) AS i
    WHERE coalesce(
        (SELECT max(r.ended_at) FROM runs r WHERE r.job = b.id || '.' || i.number),
        (SELECT h.done_at FROM jobs_history h WHERE h.id = b.id || '.' || i.number LIMIT 1)
    ) > b.changed_at
) AS f
WHERE f.times >= n.most;

-- name: next_oldest
-- The next items of backfills, as many of each as it may have.
SELECT n.backfill, i.number, i.ready FROM unnest($1::text[], $2::integer[]) AS n (backfill, room) CROSS JOIN LATERAL (
    SELECT number, ready::text AS ready FROM backfill_items WHERE backfill = n.backfill AND state = 'WAITING'
    ORDER BY number LIMIT n.room
) AS i;

-- name: next_newest
-- The same from the end of the span.
SELECT n.backfill, i.number, i.ready FROM unnest($1::text[], $2::integer[]) AS n (backfill, room) CROSS JOIN LATERAL (
    SELECT number, ready::text AS ready FROM backfill_items WHERE backfill = n.backfill AND state = 'WAITING'
    ORDER BY number DESC LIMIT n.room
) AS i;

-- name: set_items
-- The states of items.
UPDATE backfill_items i SET state = n.state FROM unnest($1::text[], $2::integer[], $3::text[]) AS n (backfill, number, state)
WHERE i.backfill = n.backfill AND i.number = n.number;

-- name: set_counts
-- The counts of backfills, and when they were checked.
UPDATE backfills b SET active = n.active, succeeded = n.succeeded, failed = n.failed, dropped = n.dropped,
    fed_at = $1::timestamptz
FROM unnest($2::text[], $3::integer[], $4::integer[], $5::integer[], $6::integer[])
    AS n (id, active, succeeded, failed, dropped)
WHERE b.id = n.id;

-- name: forget
-- Backfills that ended before then, with their items; few, because each may have many.
DELETE FROM backfills WHERE id IN (
    SELECT id FROM backfills WHERE ended_at < $1 AND active = 0 ORDER BY ended_at LIMIT 3 FOR UPDATE SKIP LOCKED
);
