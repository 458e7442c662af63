-- Grants between namespaces.

-- name: owners
-- Of groups and pools.
SELECT s.kind, s.name, s.namespace
FROM unnest($1::text[], $2::text[]) AS n (kind, name) JOIN shared_names s USING (kind, name);

-- name: given
-- What some namespaces have given to another.
SELECT owner, kind, name, grantee, state, details, reason, changed_by, changed_at
FROM namespace_grants WHERE grantee = $1 AND owner = ANY($2::text[]);

-- name: between
-- What owners $2 have given to the grantees beside them.
SELECT owner, kind, name, grantee, state, details, reason, changed_by, changed_at
FROM unnest($1::text[], $2::text[]) AS n (grantee, owner) JOIN namespace_grants USING (owner, grantee);

-- name: of
-- What a namespace has given and has; at most $6 after (owner, kind, name, grantee).
SELECT owner, kind, name, grantee, state, details, reason, changed_by, changed_at
FROM namespace_grants
WHERE (owner = $1 OR grantee = $1) AND (owner, kind, name, grantee) > ($2, $3, $4, $5)
ORDER BY owner, kind, name, grantee
LIMIT $6;

-- name: pending
-- What owners have to decide.
SELECT owner, kind, name, grantee, state, details, reason, changed_by, changed_at
FROM namespace_grants WHERE state = 'pending' ORDER BY owner, kind, name, grantee LIMIT $1;

-- name: record
-- Stores or replaces; sorted, so that concurrent writers do not deadlock.
INSERT INTO namespace_grants (owner, kind, name, grantee, state, details, reason, changed_by, changed_at)
SELECT owner, kind, name, grantee, state, details, reason, changed_by, $9
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::boolean[], $7::text[], $8::text[])
    AS g (owner, kind, name, grantee, state, details, reason, changed_by)
ORDER BY owner, kind, name, grantee
ON CONFLICT (owner, kind, name, grantee) DO UPDATE
SET state = excluded.state, details = excluded.details, reason = excluded.reason, changed_by = excluded.changed_by,
    changed_at = excluded.changed_at;

-- name: crowded
-- The first of these namespaces that gives or has more than $2 grants.
SELECT n.namespace FROM unnest($1::text[]) AS n (namespace)
WHERE (SELECT count(*) FROM namespace_grants g WHERE g.owner = n.namespace) > $2
    OR (SELECT count(*) FROM namespace_grants g WHERE g.grantee = n.namespace) > $2
ORDER BY n.namespace LIMIT 1;

-- name: lock_claims
-- Claims of a namespace are counted one after another.
SELECT pg_advisory_xact_lock(hashtextextended('shared_names ' || $1, 0));

-- name: claim
-- Names without an owner, which begin to be the namespace's, and its own, whose use is noted once an hour. Sorted, so that
-- concurrent claims do not deadlock. Returns the new ones.
INSERT INTO shared_names AS known (kind, name, namespace, since)
SELECT kind, name, $3, $4 FROM unnest($1::text[], $2::text[]) AS n (kind, name) ORDER BY kind, name
ON CONFLICT (kind, name) DO UPDATE SET since = excluded.since
WHERE known.namespace = excluded.namespace AND known.since < excluded.since - interval '1 hour'
RETURNING xmax = 0 AS new;

-- name: names
-- How many names of groups and pools a namespace owns.
SELECT count(*) FROM shared_names WHERE namespace = $1;

-- name: free
-- Names that nothing uses and that no definition has asked for since $1: no schedule has them, no run holds a slot, no job
-- waits, and no limit is set.
WITH used AS MATERIALIZED (
    SELECT DISTINCT CASE WHEN c ->> 'type' = 'POOL' THEN 'pool' ELSE 'group' END AS kind, coalesce(c ->> 'pool', c ->> 'group') AS name
    FROM schedules s CROSS JOIN LATERAL jsonb_path_query(s.definition, '$.constraints[*]') AS c
    WHERE s.deleted_at IS NULL AND jsonb_typeof(c) = 'object' AND c ->> 'type' IN ('GROUP', 'POOL', 'RATE')
        AND EXISTS (SELECT FROM shared_names WHERE since < $1)
)
DELETE FROM shared_names n
WHERE n.since < $1
    AND NOT EXISTS (SELECT FROM used u WHERE u.kind = n.kind AND u.name = n.name)
    AND NOT EXISTS (
        SELECT FROM groups g WHERE g.name = CASE n.kind WHEN 'pool' THEN 'pool:' ELSE '' END || n.name AND (
            g.slots IS NOT NULL OR EXISTS (SELECT FROM group_slots h WHERE h.group_name = g.name)
            OR EXISTS (SELECT FROM group_waits w WHERE w.group_name = g.name)
        )
    )
    AND NOT EXISTS (SELECT FROM lines l WHERE n.kind = 'pool' AND l.pool = n.name)
RETURNING n.kind, n.name, n.namespace;

-- name: hand_over
-- The name of a group or pool.
INSERT INTO shared_names (kind, name, namespace, since) VALUES ($1, $2, $3, $4)
ON CONFLICT (kind, name) DO UPDATE SET namespace = excluded.namespace, since = excluded.since;

-- name: remove
-- One.
DELETE FROM namespace_grants WHERE owner = $1 AND kind = $2 AND name = $3 AND grantee = $4
RETURNING owner, kind, name, grantee, state, details, reason, changed_by, changed_at;
