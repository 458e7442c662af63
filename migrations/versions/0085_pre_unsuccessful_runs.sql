-- Runs that failed, were killed or lost, newest first: they are looked for among all others, which are many more. The
-- indexes of the history are of the parent alone: those of its parts are built and attached one by one, beside writers.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_unsuccessful ON runs (created_at DESC, id DESC, state)
    WHERE state IN ('FAILED', 'KILLED', 'LOST');
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_unsuccessful_of_program ON runs (program, created_at DESC, id DESC, state)
    WHERE state IN ('FAILED', 'KILLED', 'LOST');
CREATE INDEX IF NOT EXISTS runs_history_unsuccessful ON ONLY runs_history (created_at DESC, id DESC, state)
    WHERE state IN ('FAILED', 'KILLED', 'LOST');
CREATE INDEX IF NOT EXISTS runs_history_unsuccessful_of_program
    ON ONLY runs_history (program, created_at DESC, id DESC, state) WHERE state IN ('FAILED', 'KILLED', 'LOST');
