-- The inline runs in the hands of one launcher. Built beside the writers.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_inline_by_runner ON runs (runner)
    WHERE runner IS NOT NULL AND state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
        AND executable ->> 'type' IN ('http', 'publish');
