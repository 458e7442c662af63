-- The active runs of namespaces with a quota are slots of a group of its own. See store/limits/namespace_runs.py.

-- name: limit
-- The quota of a namespace.
SELECT slots FROM groups WHERE name = 'quota:' || $1::text;

-- name: set
-- The number of slots.
INSERT INTO groups (name, slots, changed_at) VALUES ('quota:' || $1::text, $2, $3)
ON CONFLICT (name) DO UPDATE SET slots = excluded.slots, changed_at = excluded.changed_at;

-- name: count_active
-- Slots of active runs without one, of namespace $1 (NULL: of all with a quota). A run that is ending is skipped, so that
-- no slot is taken after it was freed.
WITH uncounted AS (
    SELECT g.name, r.id FROM groups g JOIN runs r ON 'quota:' || split_part(r.program, '.', 1) = g.name
    WHERE g.name LIKE 'quota:%' AND g.slots IS NOT NULL AND ($1::text IS NULL OR g.name = 'quota:' || $1)
        AND r.state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
        AND NOT EXISTS (SELECT FROM group_slots s WHERE s.run = r.id AND s.group_name = g.name)
    FOR SHARE OF r SKIP LOCKED
)
INSERT INTO group_slots (group_name, run, weight) SELECT name, id, 1 FROM uncounted ON CONFLICT DO NOTHING;

-- name: close
-- Without a quota: no slots, no limit.
UPDATE groups SET slots = NULL WHERE name = 'quota:' || $1::text;

-- name: free_all
-- The slots of a namespace whose quota was removed.
DELETE FROM group_slots WHERE group_name = 'quota:' || $1::text;

-- name: wake_all
-- Wakes every job that waits for the quota.
WITH waiting AS (
    DELETE FROM group_waits WHERE group_name = 'quota:' || $1::text RETURNING job
), woken AS (
    UPDATE jobs SET next_check_at = timestamptz 'epoch' WHERE id IN (
        SELECT id FROM jobs WHERE id IN (SELECT job FROM waiting) AND state = 'PENDING_CONSTRAINT' FOR UPDATE SKIP LOCKED
    ) RETURNING id
)
SELECT pg_notify('launcher', '') FROM woken LIMIT 1;
