-- What pages read over many rows. Ids begin with their namespace; `prefix` is `namespace.`, or NULL for all.

-- name: counts
-- Work that has not ended, by partial indexes; what ended among the newest $3 runs since $2; schedules by state.
WITH newest AS (
    SELECT state, ended_at FROM (
        (SELECT id, state, created_at, ended_at FROM runs ORDER BY created_at DESC, id DESC LIMIT $3)
        UNION ALL
        (SELECT id, state, created_at, done_at FROM runs_history ORDER BY created_at DESC, id DESC LIMIT $3)
    ) AS r
    WHERE ($1::text IS NULL OR starts_with(id, $1)) AND ended_at >= $2
)
SELECT
    (SELECT count(*) FROM runs WHERE state IN ('STARTING', 'RUNNING', 'SUSPENDED')
        AND ($1::text IS NULL OR starts_with(id, $1)))::int AS running,
    (SELECT count(*) FROM runs WHERE state = 'PENDING' AND ($1::text IS NULL OR starts_with(id, $1)))::int AS ready,
    (SELECT count(*) FROM jobs WHERE state = 'PENDING_CONSTRAINT' AND ($1::text IS NULL OR starts_with(id, $1)))::int
        AS waiting,
    (SELECT count(*) FROM newest)::int AS ended,
    (SELECT count(*) FROM newest WHERE state IN ('FAILED', 'LOST'))::int AS failed,
    s.*
FROM (
    SELECT count(*) FILTER (WHERE enabled)::int AS enabled,
        count(*) FILTER (WHERE NOT enabled AND z.schedule IS NOT NULL)::int AS paused,
        count(*) FILTER (WHERE NOT enabled AND z.schedule IS NULL)::int AS disabled,
        count(h.schedule)::int AS error
    FROM schedules o
    LEFT JOIN pauses z ON z.schedule = o.id AND z.generation = o.generation
    LEFT JOIN schedule_halts h ON h.schedule = o.id
    WHERE o.deleted_at IS NULL AND ($1::text IS NULL OR starts_with(o.id, $1))
) AS s;

-- name: oldest_waiting
-- The jobs that wait longest, by the partial index of waiting jobs.
SELECT id AS job, schedule, program, reason, CASE WHEN backfill IS NULL THEN satisfied_at ELSE created_at END AS since FROM jobs
WHERE state = 'PENDING_CONSTRAINT' AND ($1::text IS NULL OR starts_with(id, $1))
ORDER BY satisfied_at, id LIMIT $2;

-- name: recent_failures
-- Failed and lost runs among the newest $2.
SELECT id AS run, program, state, coalesce(reason, '') AS reason, ended_at FROM (
    (SELECT id, program, state, reason, created_at, ended_at FROM runs ORDER BY created_at DESC, id DESC LIMIT $2)
    UNION ALL
    (SELECT id, program, state, record ->> 'reason', created_at, done_at FROM runs_history
    ORDER BY created_at DESC, id DESC LIMIT $2)
) AS r
WHERE state IN ('FAILED', 'LOST') AND ($1::text IS NULL OR starts_with(id, $1))
ORDER BY created_at DESC, id DESC LIMIT $3;

-- name: search
-- Schedules whose id or program contains $2 (lower case) in the states $3 (none: any), after the id $4.
SELECT s.id FROM schedules s
LEFT JOIN pauses z ON z.schedule = s.id AND z.generation = s.generation
LEFT JOIN schedule_halts h ON h.schedule = s.id
WHERE s.deleted_at IS NULL AND s.id > $4
    AND ($1::text IS NULL OR starts_with(s.id, $1))
    AND ($2 = '' OR strpos(lower(s.id), $2) > 0 OR strpos(lower(s.program), $2) > 0)
    AND (cardinality($3::text[]) = 0 OR h.schedule IS NOT NULL AND 'error' = ANY ($3::text[])
        OR CASE WHEN s.enabled THEN 'enabled' WHEN z.schedule IS NULL THEN 'disabled' ELSE 'paused' END = ANY ($3::text[]))
ORDER BY s.id LIMIT $5;

-- name: strips
-- The newest $2 jobs of each schedule with their last runs, the history included.
SELECT s.id AS schedule, x.job, x.job_state, x.created_at, x.run, x.run_state, x.started_at, x.ended_at
FROM unnest($1::text[]) AS s (id) CROSS JOIN LATERAL (
    (SELECT j.id AS job, j.state AS job_state, j.created_at, r.id AS run, r.state AS run_state, r.started_at, r.ended_at
    FROM (
        SELECT id, state, created_at FROM jobs WHERE schedule = s.id ORDER BY created_at DESC, id DESC LIMIT $2
    ) AS j
    LEFT JOIN LATERAL (
        SELECT id, state, started_at, ended_at FROM runs WHERE job = j.id ORDER BY attempt DESC LIMIT 1
    ) AS r ON true)
    UNION ALL
    SELECT h.id, h.state, h.created_at, h.runs[cardinality(h.runs)], last.state,
        (last.record ->> 'started_at')::timestamptz, (last.record ->> 'ended_at')::timestamptz
    FROM (
        SELECT id, state, created_at, runs, done_at FROM jobs_history
        WHERE schedule = s.id ORDER BY created_at DESC, id DESC LIMIT $2
    ) AS h
    LEFT JOIN runs_history last ON last.id = h.runs[cardinality(h.runs)] AND last.done_at = h.done_at
    ORDER BY created_at DESC, job DESC LIMIT $2
) AS x
ORDER BY s.id, x.created_at, x.job;

-- name: version
-- Two numbers, of which one grows with every decision and the other with every record that is copied from the log.
SELECT last_value AS decisions, (SELECT coalesce(sum(position), 0) FROM intake_positions)::bigint AS copied
FROM decisions_ids;
