-- The history of jobs and runs by number. Numbers are taken before their transactions commit, so a number is settled only
-- when every transaction that was writing when it was the last one has ended.

-- name: last
-- The last number that was taken.
SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END AS number FROM decisions_ids;

-- name: writers
-- The transactions that write history now. Each locks the table before it takes a number, and until it ends.
SELECT DISTINCT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND relation = 'decisions'::regclass AND mode = 'RowExclusiveLock' AND granted;

-- name: read
-- Lines after $1 up to $2, with what is known of their jobs and runs, also when these have moved to the history. With $4
-- also those of expectations, and of schedules that paused themselves.
SELECT d.id AS number, d.at, d.subject_kind AS kind, d.subject, d.action, d.reason,
    coalesce(j.schedule, jh.schedule, rh.schedule) AS schedule, coalesce(r.program, rh.program, j.program) AS program,
    coalesce(r.job, rh.record ->> 'job') AS job, coalesce(r.attempt, (rh.record ->> 'attempt')::integer) AS attempt,
    d.detail
FROM (
    SELECT * FROM (
        (SELECT id, at, subject_kind, subject, action, reason, detail FROM work_decisions
        WHERE id > $1 AND id <= $2 ORDER BY id LIMIT $3)
        UNION ALL
        (SELECT id, at, subject_kind, subject, action, reason, detail FROM audit_decisions
        WHERE $4 AND id > $1 AND id <= $2 AND (subject_kind = 'expectation'
            OR subject_kind = 'schedule' AND action = 'paused' AND detail ->> 'by' = 'itself')
        ORDER BY id LIMIT $3)
    ) AS both_parts ORDER BY id LIMIT $3
) AS d
LEFT JOIN runs r ON d.subject_kind = 'run' AND r.id = d.subject
LEFT JOIN LATERAL (
    SELECT h.program, h.schedule, h.record FROM runs_history h
    WHERE d.subject_kind = 'run' AND r.id IS NULL AND h.id = d.subject LIMIT 1
) AS rh ON true
LEFT JOIN jobs j ON j.id = CASE d.subject_kind WHEN 'job' THEN d.subject ELSE coalesce(r.job, rh.record ->> 'job') END
LEFT JOIN LATERAL (
    SELECT h.schedule FROM jobs_history h WHERE d.subject_kind = 'job' AND j.id IS NULL AND h.id = d.subject LIMIT 1
) AS jh ON true
ORDER BY d.id;
