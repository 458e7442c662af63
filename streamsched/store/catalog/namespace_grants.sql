-- Grants between namespaces. See ports/access/namespace_grants.py.

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

-- name: claim
-- Names without an owner; sorted, so that concurrent claims do not deadlock.
INSERT INTO shared_names (kind, name, namespace, since)
SELECT kind, name, $3, $4 FROM unnest($1::text[], $2::text[]) AS n (kind, name) ORDER BY kind, name
ON CONFLICT DO NOTHING;

-- name: hand_over
-- The name of a group or pool.
INSERT INTO shared_names (kind, name, namespace, since) VALUES ($1, $2, $3, $4)
ON CONFLICT (kind, name) DO UPDATE SET namespace = excluded.namespace, since = excluded.since;

-- name: remove
-- One.
DELETE FROM namespace_grants WHERE owner = $1 AND kind = $2 AND name = $3 AND grantee = $4
RETURNING owner, kind, name, grantee, state, details, reason, changed_by, changed_at;
