-- Preferences of namespaces.

-- name: get
-- Those of one namespace; always one row.
SELECT $1::text AS namespace, EXISTS (SELECT FROM namespaces WHERE name = $1) AS deployed, coalesce(p.arguments, '{}') AS arguments,
    coalesce(p.reason, '') AS reason, p.changed_at
FROM (SELECT 1) AS one LEFT JOIN preferences p ON p.namespace = $1;

-- name: of_runs
-- The arguments of runs that are made now.
SELECT arguments FROM preferences WHERE namespace = $1;

-- name: ensure
-- A row to lock: two first changes of a namespace are one after the other.
INSERT INTO preferences (namespace, arguments) VALUES ($1, '{}') ON CONFLICT DO NOTHING;

-- name: lock
-- Another change of the namespace waits.
SELECT arguments FROM preferences WHERE namespace = $1 FOR UPDATE;

-- name: set
-- All of them.
UPDATE preferences SET arguments = $2::jsonb, reason = $3, changed_at = $4 WHERE namespace = $1;
