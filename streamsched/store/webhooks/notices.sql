-- Recipients of apps, and the lines of the history for them. Locks: the reader's row, then recipients by id, then queues.

-- name: reader
-- Where the reader of the history stands, locked; the end of the history for a new one.
INSERT INTO history_readers AS known (name, position)
SELECT 'notices', CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM decisions_ids
ON CONFLICT (name) DO UPDATE SET position = known.position
RETURNING position;

-- name: next
-- Lines after $1 up to $2 that a recipient may want, in order.
SELECT id, subject FROM (
    (SELECT id, subject FROM work_decisions WHERE id > $1 AND id <= $2
        AND (action IN ('job.deadline_missed', 'run.recovered') OR subject_kind = 'run' AND detail -> 'failed' IS NOT NULL)
    ORDER BY id LIMIT $3)
    UNION ALL
    (SELECT id, subject FROM audit_decisions WHERE id > $1 AND id <= $2
        AND (action IN ('expectation.missed', 'expectation.met_late') AND subject_kind = 'expectation'
            OR action = 'paused' AND subject_kind = 'schedule' AND detail ->> 'by' = 'itself')
    ORDER BY id LIMIT $3)
) AS found ORDER BY id LIMIT $3;

-- name: note
-- There is something for the recipients of these apps, from these lines on.
UPDATE notice_recipients r SET first = coalesce(r.first, n.first)
FROM unnest($1::text[], $2::bigint[]) AS n (app, first) WHERE r.app = n.app;

-- name: advance_reader
-- It has read up to this line.
UPDATE history_readers SET position = $1 WHERE name = 'notices';

-- name: waiting
-- Recipients for whom there is something, whose latest message was made before $1 and is not in its queue any more.
SELECT r.id, r.app, r.definition, r.first FROM notice_recipients r
WHERE r.first IS NOT NULL AND (r.sent_at IS NULL OR r.sent_at <= $1::timestamptz)
    AND NOT EXISTS (
        SELECT FROM tasks t WHERE t.lane = right(r.id, 200)
            AND t.queue = coalesce('webhook.' || split_part(r.app, '.', 1) || '.' || (r.definition ->> 'webhook'), $3)
    )
ORDER BY r.sent_at NULLS FIRST, r.id LIMIT $2;

-- name: lock
-- One recipient, locked.
SELECT first FROM notice_recipients WHERE id = $1 FOR UPDATE;

-- name: lines
-- Lines from $1 up to $2 about an app ($3) that a recipient may want, in order, with what is known of their jobs and runs.
SELECT d.id AS number, d.at, d.subject_kind AS kind, d.subject, d.action, d.reason,
    coalesce(j.schedule, jh.schedule, rh.schedule) AS schedule, coalesce(r.program, rh.program, j.program) AS program,
    coalesce(r.job, rh.record ->> 'job') AS job, coalesce(r.attempt, (rh.record ->> 'attempt')::integer) AS attempt,
    d.detail
FROM (
    SELECT * FROM (
        (SELECT id, at, subject_kind, subject, action, reason, detail FROM work_decisions WHERE id >= $1 AND id <= $2
            AND starts_with(subject, $3 || '.')
            AND (action IN ('job.deadline_missed', 'run.recovered')
                OR subject_kind = 'run' AND detail -> 'failed' IS NOT NULL)
        ORDER BY id LIMIT $4)
        UNION ALL
        (SELECT id, at, subject_kind, subject, action, reason, detail FROM audit_decisions WHERE id >= $1 AND id <= $2
            AND starts_with(subject, $3 || '.')
            AND (action IN ('expectation.missed', 'expectation.met_late') AND subject_kind = 'expectation'
                OR action = 'paused' AND subject_kind = 'schedule' AND detail ->> 'by' = 'itself')
        ORDER BY id LIMIT $4)
    ) AS both_parts ORDER BY id LIMIT $4
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

-- name: sent
-- What waits for a recipient now ($2), and when its latest message was made ($3; NULL: as before).
UPDATE notice_recipients SET first = $2, sent_at = coalesce($3::timestamptz, sent_at) WHERE id = $1;

-- name: recipient
-- One recipient.
SELECT app, definition FROM notice_recipients WHERE id = $1;

-- name: webhook
-- A webhook that recipients may name.
SELECT definition, enabled FROM webhooks WHERE id = $1;

-- name: has_queue
-- Whether the queue of mail is there.
SELECT EXISTS (SELECT FROM task_queues WHERE name = $1);

-- name: unheard
-- A message that could not be made, in the history of the app.
INSERT INTO decisions (at, subject_kind, subject, action, reason) VALUES ($1, 'app', $2, 'app.not_notified', $3);
