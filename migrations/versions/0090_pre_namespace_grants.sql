-- What the owner of a namespace lets definitions of another refer to. See domain/access/references.py.
CREATE TABLE namespace_grants (
    owner text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('dataset', 'stream', 'event', 'program', 'group', 'pool')),
    name text NOT NULL,                 -- without the namespace; of a program, app.program; a pattern
    grantee text NOT NULL,
    state text NOT NULL CHECK (state IN ('pending', 'granted', 'refused')),
    details boolean NOT NULL DEFAULT false,
    reason text NOT NULL DEFAULT '',    -- of the last decision
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (owner, kind, name, grantee),
    CHECK (owner <> grantee),
    CHECK (state = 'granted' OR NOT details)
);

CREATE INDEX namespace_grants_grantee ON namespace_grants (grantee, owner);

-- The namespace to which the name of a group or pool belongs: the one that declared it first.
CREATE TABLE shared_names (
    kind text NOT NULL CHECK (kind IN ('group', 'pool')),
    name text NOT NULL,
    namespace text NOT NULL,
    since timestamptz NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE INDEX shared_names_namespace ON shared_names (namespace);

-- What is stored already: groups and pools belong to the namespace of the oldest schedule that names them, and all other
-- references to another namespace are pending until its owner decides.
CREATE TEMPORARY TABLE used_names ON COMMIT DROP AS
SELECT s.id, s.created_at, split_part(s.id, '.', 1) AS namespace,
    CASE WHEN c ->> 'type' = 'POOL' THEN 'pool' ELSE 'group' END AS kind, coalesce(c ->> 'pool', c ->> 'group') AS name
FROM schedules s CROSS JOIN LATERAL jsonb_path_query(s.definition, '$.constraints[*]') AS c
WHERE s.deleted_at IS NULL AND jsonb_typeof(c) = 'object' AND c ->> 'type' IN ('GROUP', 'POOL', 'RATE')
    AND coalesce(c ->> 'pool', c ->> 'group') IS NOT NULL;

INSERT INTO shared_names (kind, name, namespace, since)
SELECT DISTINCT ON (kind, name) kind, name, namespace, created_at FROM used_names ORDER BY kind, name, created_at, id;

INSERT INTO namespace_grants (owner, kind, name, grantee, state, changed_by, changed_at)
SELECT DISTINCT o.namespace, u.kind, u.name, u.namespace, 'pending', 'upgrade', now()
FROM used_names u JOIN shared_names o USING (kind, name)
WHERE o.namespace <> u.namespace;

INSERT INTO namespace_grants (owner, kind, name, grantee, state, changed_by, changed_at)
SELECT DISTINCT f.owner, f.kind, f.name, split_part(s.id, '.', 1), 'pending', 'upgrade', now()
FROM schedules s CROSS JOIN LATERAL (
    SELECT 'dataset' AS kind, r ->> 'namespace' AS owner, r ->> 'dataset' AS name
    FROM jsonb_path_query(s.definition, '$.trigger.**.dataset') AS r WHERE jsonb_typeof(r) = 'object'
    UNION ALL
    SELECT 'stream', r ->> 'namespace', r ->> 'stream'
    FROM jsonb_path_query(s.definition, '$.trigger.**.streamId') AS r WHERE jsonb_typeof(r) = 'object'
    UNION ALL
    SELECT 'event', r ->> 'namespace', r ->> 'event'
    FROM jsonb_path_query(s.definition, '$.trigger.**.event') AS r WHERE jsonb_typeof(r) = 'object'
    UNION ALL
    SELECT 'program', r ->> 'namespace', (r ->> 'application') || '.' || (r ->> 'program')
    FROM jsonb_path_query(s.definition, '$.trigger.**.programId') AS r WHERE jsonb_typeof(r) = 'object'
) AS f
WHERE s.deleted_at IS NULL AND f.owner IS NOT NULL AND f.name IS NOT NULL AND f.owner <> split_part(s.id, '.', 1);
