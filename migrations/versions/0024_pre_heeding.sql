-- Waiting jobs that the end of a run of their program may let go and that nobody has woken yet, longest satisfied first.
-- Built beside the writers: jobs are many, these are few. How few the planner cannot know, and would take the index of
-- all that wait: hence an expression that only this one has (no waiting job is without a program).
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_heeding_runs ON jobs (coalesce(program, ''), satisfied_at, sequence)
    WHERE state = 'PENDING_CONSTRAINT' AND next_check_at IS DISTINCT FROM timestamptz 'epoch'
        AND spared_at IS DISTINCT FROM checked_at;
