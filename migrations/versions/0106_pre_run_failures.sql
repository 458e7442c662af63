-- Of which class the failure of a run is: lost, crash, oom, evicted, cancelled, error or timeout (domain.jobs.failure). NULL
-- of runs that did not fail, and of those that ended before.
ALTER TABLE runs ADD COLUMN failure text;
