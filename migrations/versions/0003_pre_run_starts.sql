-- When the newest runs of a program were made, for rates. Built beside the writers: runs may be many.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_by_program ON runs (program, created_at DESC);
