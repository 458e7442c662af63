-- Whether a run that somebody wants to end is killed at once, and which of those nobody executes yet.
ALTER TABLE runs ADD COLUMN stop_at_once boolean NOT NULL DEFAULT false;
CREATE INDEX runs_condemned ON runs (id) WHERE state = 'PENDING' AND stop_requested IS NOT NULL;
