-- Which schema a database has.

-- name: present
-- Whether any migration has run.
SELECT to_regclass('alembic_version') IS NOT NULL;

-- name: revision
-- Where the last migration that ran ended; no row while the first one runs.
SELECT version_num FROM alembic_version;
