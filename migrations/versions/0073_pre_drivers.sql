-- The driver that a cluster has for the run: {"id", "master", "logs"}.
ALTER TABLE runs ADD COLUMN driver jsonb;
-- Whether a runner has claimed the run after the end of another, which may have submitted a driver.
ALTER TABLE runs ADD COLUMN taken_over boolean NOT NULL DEFAULT false;
