-- name: get
-- One job with the ids of its runs; from the history when it was moved there. Of its satisfaction what is shown in a list.
SELECT id, schedule, generation, sequence, program, state, reason, satisfied_at, created_at, next_check_at, waiting,
    checked_at, jsonb_build_object('traceparent', ready -> 'traceparent', 'satisfied_at', ready -> 'satisfied_at',
        'submission', CASE WHEN submitted THEN ready -> 'submission' END) AS ready,
    joined, ended_at, command, command_reason, missed, failures, submitted, backfill, spans, runs
FROM (
    SELECT j.*, array(SELECT id FROM runs r WHERE r.job = j.id ORDER BY attempt) AS runs FROM jobs j WHERE j.id = $1
    UNION ALL
    SELECT j.*, h.runs FROM jobs_history h, jsonb_populate_record(NULL::jobs, h.record) AS j WHERE h.id = $1
) AS known;

-- name: recent
-- The newest jobs, of all schedules ($1), apps or namespaces ($4) and states where none is named, with the history; older than the
-- one created at $5 with id $6. The history is not searched for states that only jobs have that have not ended. Of the
-- satisfactions what a list shows: all events of a page of jobs may be hundreds of megabytes.
SELECT id, schedule, generation, sequence, program, state, reason, satisfied_at, created_at, next_check_at, waiting,
    checked_at, jsonb_build_object('traceparent', ready -> 'traceparent', 'satisfied_at', ready -> 'satisfied_at',
        'submission', CASE WHEN submitted THEN ready -> 'submission' END) AS ready,
    joined, ended_at, command, command_reason, missed, failures, submitted, backfill, spans, runs
FROM (
    (SELECT j.*, array(SELECT id FROM runs r WHERE r.job = j.id ORDER BY attempt) AS runs FROM jobs j
    WHERE ($1::text IS NULL OR j.schedule = $1) AND (cardinality($2::text[]) = 0 OR j.state = ANY($2::text[]))
        AND ($4::text IS NULL OR starts_with(j.schedule, $4 || '.'))
        AND (j.created_at, j.id) < ($5, $6)
    ORDER BY j.created_at DESC, j.id DESC
    LIMIT $3)
    UNION ALL
    SELECT j.*, h.runs FROM (
        SELECT record, runs FROM jobs_history
        WHERE ($1::text IS NULL OR schedule = $1) AND (cardinality($2::text[]) = 0 OR state = ANY($2::text[]))
            AND ($4::text IS NULL OR starts_with(schedule, $4 || '.'))
            AND (created_at, id) < ($5, $6)
            AND NOT (cardinality($2::text[]) > 0 AND $2::text[] <@ ARRAY['PENDING_CONSTRAINT', 'PENDING_LAUNCH'])
        ORDER BY created_at DESC, id DESC
        LIMIT $3
    ) AS h, jsonb_populate_record(NULL::jobs, h.record) AS j
) AS known
ORDER BY created_at DESC, id DESC
LIMIT $3;

-- name: outcomes
-- The states of these runs.
SELECT id, state, reason, started_at, ended_at FROM runs WHERE id = ANY ($1::text[])
UNION ALL
SELECT r.id, r.state, r.reason, r.started_at, r.ended_at
FROM runs_history h, jsonb_populate_record(NULL::runs, h.record) AS r WHERE h.id = ANY ($1::text[]);

-- name: satisfied
-- The jobs of a schedule that were satisfied in a span of time, without backfills, the newest first. The clocks of the log
-- and of the intake may differ by an hour, no more.
SELECT id, state, reason, satisfied_at, joined FROM (
    (SELECT id, state, reason, satisfied_at, joined, created_at FROM jobs
    WHERE schedule = $1 AND satisfied_at BETWEEN $2 AND $3 AND created_at >= $2 - interval '1 hour'
    ORDER BY created_at DESC, id DESC
    LIMIT $4)
    UNION ALL
    (SELECT h.id, h.state, j.reason, j.satisfied_at, j.joined, h.created_at
    FROM jobs_history h, jsonb_to_record(h.record) AS j (reason text, satisfied_at timestamptz, joined text)
    WHERE h.schedule = $1 AND h.created_at >= $2 - interval '1 hour' AND h.done_at >= $2 - interval '1 hour'
        AND j.satisfied_at BETWEEN $2 AND $3
    ORDER BY h.created_at DESC, h.id DESC
    LIMIT $4)
) AS known
ORDER BY created_at DESC, id DESC
LIMIT $4;

-- name: changes
-- The changes of a schedule until then, newest first, with what an explanation reads of their details.
SELECT at, subject_kind, subject, action, reason, jsonb_strip_nulls(jsonb_build_object(
    'enabled', detail -> 'enabled', 'until', detail -> 'until', 'mode', detail -> 'mode', 'skipped', detail -> 'skipped',
    'joined', detail -> 'joined')) AS detail FROM decisions
WHERE subject = $1 AND subject_kind = 'schedule' AND at <= $2
ORDER BY id DESC
LIMIT 500;

-- name: pauses
-- When a schedule was paused, disabled, resumed or enabled from $2 on, up to $3 when that is given, and how it was by $2.
SELECT at, subject, 'schedule.' || action AS action, reason, detail ->> 'until' AS until,
    detail ->> 'mode' AS mode FROM decisions
WHERE subject = $1 AND subject_kind = 'schedule' AND action IN ('paused', 'disabled', 'resumed', 'enabled')
    AND ($3::timestamptz IS NULL OR at <= $3)
    AND at >= coalesce((
        SELECT max(at) FROM decisions
        WHERE subject = $1 AND subject_kind = 'schedule' AND action IN ('paused', 'disabled', 'resumed', 'enabled')
            AND at <= $2
    ), $2)
ORDER BY at, id
LIMIT 100;

-- name: standing
-- The current schedule of a job.
SELECT definition, generation, oldest_valid_generation, admits, deleted_at, priority_set, resumed_at FROM schedules WHERE id = $1;

-- name: ready
-- A job's satisfaction and those coalesced into it, in order.
SELECT ready FROM (
    SELECT id, generation, sequence, ready::text AS ready FROM jobs WHERE id = $1 OR (joined = $1 AND $2)
    UNION ALL
    SELECT j.id, j.generation, j.sequence, j.ready::text
    FROM jobs_history h, jsonb_populate_record(NULL::jobs, h.record) AS j WHERE h.id = $1
) AS known
ORDER BY id <> $1, generation, sequence;

-- name: holders
-- The program's non-terminal runs, oldest first.
SELECT r.id, r.state, coalesce(r.started_at, r.created_at) AS since, j.schedule
FROM runs r LEFT JOIN jobs j ON j.id = r.job
WHERE r.program = $1 AND r.state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
ORDER BY r.created_at, r.id;

-- name: last_completed
-- The end of the program's latest completed run.
SELECT ended_at FROM runs WHERE program = $1 AND state = 'COMPLETED' ORDER BY ended_at DESC LIMIT 1;

-- name: launch
-- The job's last run, and how many PENDING runs are started before it.
SELECT r.id, r.attempt, r.state, r.reason, coalesce(r.ended_at, r.started_at, r.created_at) AS since, r.spawns,
    nullif(r.spawn_at, 'infinity') AS spawn_at, r.spawn_at IS NOT DISTINCT FROM 'infinity' AS held_back,
    r.runner, r.heartbeat_at, r.stop_requested, (
        SELECT count(*) FROM runs o WHERE o.state = 'PENDING' AND (o.spawn_at, o.created_at) < (r.spawn_at, r.created_at)
    ) AS ahead
FROM (
    SELECT * FROM runs WHERE job = $1
    UNION ALL
    SELECT last.* FROM jobs_history j JOIN runs_history h ON h.id = j.runs[cardinality(j.runs)] AND h.done_at = j.done_at,
        jsonb_populate_record(NULL::runs, h.record) AS last
    WHERE j.id = $1
) AS r
ORDER BY r.attempt DESC LIMIT 1;

-- name: typical
-- The median duration of the program's latest completed runs, in seconds.
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM ended_at - started_at)) FROM (
    SELECT started_at, ended_at FROM runs WHERE program = $1 AND state = 'COMPLETED' ORDER BY ended_at DESC LIMIT 20
) AS latest;

-- name: lock_program
-- Waits for a decision about the program in progress.
SELECT id FROM programs WHERE id = $1 FOR UPDATE;

-- name: tell
-- An operator's command on a waiting job, which becomes due; NULL removes it.
WITH commanded AS (
    UPDATE jobs SET command = $2, command_reason = $3, next_check_at = timestamptz 'epoch'
    WHERE id = $1 AND state = 'PENDING_CONSTRAINT' RETURNING id
), recorded AS (
    INSERT INTO decisions (at, subject_kind, subject, action, reason) SELECT $4, 'job', id, $5, $3 FROM commanded
)
SELECT pg_notify('launcher', '') FROM commanded;

-- name: history
-- The history of these subjects, oldest first, the newest thousand lines.
SELECT at, subject, action, reason FROM (
    SELECT id, at, subject, action, reason FROM decisions WHERE subject = ANY($1::text[]) ORDER BY id DESC LIMIT 1000
) AS newest ORDER BY id;
