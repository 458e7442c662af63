-- Where workers reach the owners of tasks (ADR 86). An owner of an earlier release has no row: it stages tasks for workers.
CREATE TABLE IF NOT EXISTS task_streams (
    owner text PRIMARY KEY,
    url text NOT NULL CONSTRAINT task_streams_url CHECK (length(url) BETWEEN 1 AND 2000),
    seen_at timestamptz NOT NULL
);

-- Runs of enqueue programs are inline. Built beside the writers. The indexes without them go in a later post migration.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_to_take_inline ON runs (spawn_at)
    WHERE state = 'PENDING' AND executable ->> 'type' IN ('http', 'publish', 'enqueue');
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_to_give_runner ON runs (spawn_at)
    WHERE state = 'PENDING' AND executable ->> 'type' NOT IN ('http', 'publish', 'enqueue');
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_inline_of_runner ON runs (runner)
    WHERE runner IS NOT NULL AND state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
        AND executable ->> 'type' IN ('http', 'publish', 'enqueue');
