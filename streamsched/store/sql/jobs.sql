-- name: get
-- One job with the ids of its runs, of the history when it has ended and left.
SELECT j.*, array(SELECT id FROM runs r WHERE r.job = j.id ORDER BY attempt) AS runs FROM jobs j WHERE j.id = $1
UNION ALL
SELECT j.*, h.runs FROM jobs_history h, jsonb_populate_record(NULL::jobs, h.record) AS j WHERE h.id = $1;

-- name: recent
-- The newest jobs, of all schedules and states where none is named; with those that have left for the history.
SELECT * FROM (
    (SELECT j.*, array(SELECT id FROM runs r WHERE r.job = j.id ORDER BY attempt) AS runs FROM jobs j
    WHERE ($1::text IS NULL OR j.schedule = $1) AND (cardinality($2::text[]) = 0 OR j.state = ANY($2::text[]))
    ORDER BY j.created_at DESC, j.id DESC
    LIMIT $3)
    UNION ALL
    SELECT j.*, h.runs FROM (
        SELECT record, runs FROM jobs_history
        WHERE ($1::text IS NULL OR schedule = $1) AND (cardinality($2::text[]) = 0 OR state = ANY($2::text[]))
        ORDER BY created_at DESC, id DESC
        LIMIT $3
    ) AS h, jsonb_populate_record(NULL::jobs, h.record) AS j
) AS known
ORDER BY created_at DESC, id DESC
LIMIT $3;

-- name: satisfied
-- The jobs of a schedule that were satisfied in a span of time, the newest first. The clocks of the log and of the intake
-- may differ by an hour, no more.
SELECT j.*, array(SELECT id FROM runs r WHERE r.job = j.id ORDER BY attempt) AS runs FROM jobs j
WHERE j.schedule = $1 AND j.satisfied_at BETWEEN $2 AND $3 AND j.created_at >= $2 - interval '1 hour'
UNION ALL
SELECT j.*, h.runs FROM jobs_history h, jsonb_populate_record(NULL::jobs, h.record) AS j
WHERE h.schedule = $1 AND h.created_at >= $2 - interval '1 hour' AND h.done_at >= $2 - interval '1 hour'
    AND j.satisfied_at BETWEEN $2 AND $3
ORDER BY created_at DESC, id DESC
LIMIT 1000;

-- name: changes
-- What was done to a schedule until then, the newest first.
SELECT at, subject_kind, subject, action, reason, detail FROM decisions
WHERE subject = $1 AND subject_kind = 'schedule' AND at <= $2
ORDER BY id DESC
LIMIT 500;

-- name: tallies
-- The verdicts a schedule gave on events, ever.
SELECT verdict, late, total, last_at FROM verdict_totals WHERE subject = $1 ORDER BY verdict, late;

-- name: standing
-- The schedule of a job as it stands now.
SELECT definition, generation, stands_from, enabled, deleted_at, priority_set FROM schedules WHERE id = $1;

-- name: ready
-- A job's satisfaction, and those that joined it, in order.
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
-- The job's last run, and how many PENDING ones are to be started before it.
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
-- How long the program's latest completed runs took: the median, in seconds.
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM ended_at - started_at)) FROM (
    SELECT started_at, ended_at FROM runs WHERE program = $1 AND state = 'COMPLETED' ORDER BY ended_at DESC LIMIT 20
) AS latest;

-- name: lock_program
-- Waits for whoever decides about the program.
SELECT id FROM programs WHERE id = $1 FOR UPDATE;

-- name: tell
-- Somebody's order to a waiting job, which is looked at at once; NULL takes it back.
WITH told AS (
    UPDATE jobs SET told = $2, told_why = $3, next_check_at = timestamptz 'epoch'
    WHERE id = $1 AND state = 'PENDING_CONSTRAINT' RETURNING id
), recorded AS (
    INSERT INTO decisions (at, subject_kind, subject, action, reason) SELECT $4, 'job', id, $5, $3 FROM told
)
SELECT id, pg_notify('launcher', '') FROM told;

-- name: history
-- What was decided about these subjects, oldest first, the newest thousand.
SELECT * FROM (
    SELECT id, at, subject, action, reason FROM decisions WHERE subject = ANY($1::text[]) ORDER BY id DESC LIMIT 1000
) AS newest ORDER BY id;
