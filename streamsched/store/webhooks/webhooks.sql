-- Webhooks. The queue of one is `webhook.` and its id. Order of locks: webhooks by id, queues, lanes, tasks.

-- name: lock_all
-- So that the limit of their number holds: one is created at a time.
SELECT pg_advisory_xact_lock(hashtextextended('webhooks', 0));

-- name: numbers
-- How many there are, and of those whose ids begin with $1.
SELECT count(*) AS installed, count(*) FILTER (WHERE starts_with(id, $1)) AS of_namespace FROM webhooks;

-- name: create
-- Begins after the lines that are there. Lines of transactions that have not ended yet may be sent or not.
INSERT INTO webhooks (id, definition, secret, position, fed_at, changed_at, created_at, created_by)
SELECT $1, $2::text::jsonb, $3, CASE WHEN is_called THEN last_value ELSE last_value - 1 END, $4::timestamptz,
    $4::timestamptz, $4::timestamptz, $5
FROM decisions_ids
ON CONFLICT (id) DO NOTHING
RETURNING id;

-- name: page
-- Those whose ids begin with $1 and follow $2; none is listed with its secret.
SELECT id FROM webhooks WHERE starts_with(id, $1) AND id > $2 ORDER BY id LIMIT $3;

-- name: records
-- Webhooks with how their deliveries go, by id.
SELECT w.id, w.definition AS webhook, w.enabled, w.changed_at, w.reason, w.by_owner, w.created_at, w.created_by,
    (SELECT count(*) FROM tasks t WHERE t.queue = q.name)::int AS queued,
    greatest(0, (SELECT last_value FROM decisions_ids) - w.position) AS unread,
    last.at AS delivered_at,
    CASE WHEN first.due_at IS NOT NULL THEN greatest(first.due_at, w.changed_at, last.at) END AS failing_since,
    coalesce(next.error, '') AS error, coalesce(next.failures, 0) AS attempts, next.next_at, w.old_until
FROM webhooks w
CROSS JOIN LATERAL (SELECT 'webhook.' || w.id AS name) AS q
LEFT JOIN LATERAL (
    SELECT max(at) AS at FROM tasks_history h WHERE h.queue = q.name AND h.state = 'SUCCEEDED'
) AS last ON true
LEFT JOIN LATERAL (
    SELECT min(due_at) AS due_at FROM tasks t WHERE t.queue = q.name AND t.state = 'RETRYING' AND t.failures > 0
) AS first ON true
LEFT JOIN LATERAL (
    SELECT error, failures, next_at FROM tasks t WHERE t.queue = q.name AND t.state = 'RETRYING' AND t.failures > 0
    ORDER BY next_at DESC LIMIT 1
) AS next ON true
WHERE w.id = ANY ($1::text[])
ORDER BY w.id;

-- name: lock
-- One webhook, locked.
SELECT enabled FROM webhooks WHERE id = $1 FOR UPDATE;

-- name: lock_definition
-- What a webhook is, and until when its old secret signs, locked.
SELECT definition, old_until FROM webhooks WHERE id = $1 FOR UPDATE;

-- name: change
-- Another definition, which refers to a secret ($4) or has a generated one: a new one ($3), or the one before.
UPDATE webhooks SET definition = $2::text::jsonb, secret = CASE WHEN $4 THEN NULL ELSE coalesce($3, secret) END
WHERE id = $1;

-- name: keep_secret
-- The secret of a webhook, which is about to be replaced, is the old one until $2.
UPDATE webhooks SET old_secret = secret, old_reference = definition -> 'secret' ->> 'secret', old_until = $2::timestamptz
WHERE id = $1;

-- name: keep_old
-- The old secret signs until $2.
UPDATE webhooks SET old_until = $2::timestamptz WHERE id = $1 AND old_until IS NOT NULL;

-- name: forget_old
-- Removes the old secrets whose time has ended: of this webhook, or of all ($1 NULL).
UPDATE webhooks SET old_secret = NULL, old_reference = NULL, old_until = NULL
WHERE old_until <= $2::timestamptz AND ($1::text IS NULL OR id = $1)
RETURNING id;

-- name: enable
-- Enables or disables it.
UPDATE webhooks SET enabled = $2, reason = $3, by_owner = $4, changed_at = $5::timestamptz WHERE id = $1;

-- name: delete
-- Removes it.
DELETE FROM webhooks WHERE id = $1 RETURNING id;

-- name: delete_lanes
-- The lanes of its queue, locked in their order first: owners hold them while they start and end tasks.
WITH locked AS MATERIALIZED (SELECT id FROM task_lanes WHERE queue = $1 ORDER BY id FOR UPDATE)
DELETE FROM task_lanes l USING locked WHERE l.id = locked.id;

-- name: delete_tasks
-- What is in its queue. An owner that delivers one finds it gone.
DELETE FROM tasks WHERE queue = $1;

-- name: delete_queue
-- Its queue.
DELETE FROM task_queues WHERE name = $1;

-- name: target
-- What a delivery needs.
SELECT definition, enabled, secret, old_secret, old_reference, old_until FROM webhooks WHERE id = $1;

-- name: list_followed
-- Enabled webhooks, with how much is in their queues, counted up to $1.
SELECT w.id, w.definition AS webhook, w.position, (
    SELECT count(*) FROM (SELECT FROM tasks t WHERE t.queue = 'webhook.' || w.id LIMIT $1) AS counted
)::int AS queued, w.sent_at
FROM webhooks w WHERE w.enabled ORDER BY w.id;

-- name: lock_at
-- Those of these that are enabled and at this position, locked.
SELECT id, fed_at FROM webhooks WHERE id = ANY ($1::text[]) AND position = $2 AND enabled ORDER BY id FOR UPDATE;

-- name: advance
-- Moves their positions; due times never go back. $4: those that were given something.
UPDATE webhooks SET position = $2, fed_at = greatest(fed_at, $3::timestamptz),
    sent_at = CASE WHEN id = ANY ($4::text[]) THEN $3::timestamptz ELSE sent_at END
WHERE id = ANY ($1::text[]);

-- name: list_failing
-- Enabled webhooks of which a task waits for its next attempt.
SELECT w.id FROM webhooks w
WHERE w.enabled AND EXISTS (
    SELECT FROM tasks t WHERE t.queue = 'webhook.' || w.id AND t.state = 'RETRYING' AND t.failures > 0
)
ORDER BY w.id;
