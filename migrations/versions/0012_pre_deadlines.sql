-- When a run has to be done, and which live ones are not.
ALTER TABLE runs ADD COLUMN deadline_at timestamptz;
CREATE INDEX runs_overdue ON runs (deadline_at)
    WHERE deadline_at IS NOT NULL AND stop_requested IS NULL AND state IN ('STARTING', 'RUNNING', 'SUSPENDED');
