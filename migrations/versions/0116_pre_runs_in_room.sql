-- Runs that need a process, by its kind, namespace and pool: those that wait for one in their order, and those that have or
-- are being given one. Built beside the writers: runs may be many.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_wait_for_room ON runs (
    (CASE WHEN executable ->> 'deploy_mode' = 'cluster' THEN 'cluster' ELSE 'host' END),
    split_part(program, '.', 1), coalesce(pool, ''), coalesce(turn_at, created_at), id, spawn_at
) WHERE state = 'PENDING' AND executable ->> 'type' NOT IN ('http', 'publish', 'enqueue') AND spawn_at < 'infinity';
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_in_room ON runs (
    (CASE WHEN executable ->> 'deploy_mode' = 'cluster' THEN 'cluster' ELSE 'host' END),
    split_part(program, '.', 1), coalesce(pool, '')
) WHERE state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED') AND executable ->> 'type' NOT IN ('http', 'publish', 'enqueue')
    AND (state <> 'PENDING' OR spawns > 0);
