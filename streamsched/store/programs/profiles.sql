-- Profiles of Spark programs.

-- name: effective
-- That of the namespace $1 by name $2, or else the installation's.
SELECT namespace, name, definition, shell, reason, changed_at FROM spark_profiles
WHERE name = $2 AND namespace IN ($1, '*') ORDER BY namespace = '*' LIMIT 1;

-- name: list
-- Those of the namespace and of the installation.
SELECT namespace, name, definition, shell, reason, changed_at FROM spark_profiles
WHERE namespace IN ($1, '*') ORDER BY name, namespace;

-- name: get
-- One of the namespace itself.
SELECT namespace, name, definition, shell, reason, changed_at FROM spark_profiles WHERE namespace = $1 AND name = $2;

-- name: lock
-- Changes of profiles are one after another.
SELECT pg_advisory_xact_lock(hashtextextended('spark_profiles', 0));

-- name: count
-- How many the namespace has besides this one.
SELECT count(*) FROM spark_profiles WHERE namespace = $1 AND name <> $2;

-- name: set
-- Stores or replaces.
INSERT INTO spark_profiles (namespace, name, definition, reason, changed_at, shell)
VALUES ($1, $2, $3::jsonb, $4, $5, $6)
ON CONFLICT (namespace, name) DO UPDATE
SET definition = excluded.definition, reason = excluded.reason, changed_at = excluded.changed_at,
    shell = excluded.shell;

-- name: remove
-- One.
DELETE FROM spark_profiles WHERE namespace = $1 AND name = $2;

-- name: users
-- Programs that get profile $2 of namespace $1: of the installation, those whose namespace has none of that name.
SELECT p.id FROM programs p
WHERE p.definition ? 'profile' AND p.definition ->> 'profile' = $2
    AND CASE WHEN $1 = '*'
        THEN NOT EXISTS (
            SELECT FROM spark_profiles s WHERE s.name = $2 AND s.namespace = split_part(p.id, '.', 1)
        )
        ELSE split_part(p.id, '.', 1) = $1
    END
ORDER BY p.id LIMIT 100;

-- name: replaced
-- Whether the installation has a profile $1 of that name, which programs then get.
SELECT EXISTS (SELECT FROM spark_profiles WHERE name = $1 AND namespace = '*');
