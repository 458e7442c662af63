-- What is known about later commits of a run that was given up, when its fence is to be written next, and how often that was tried.
ALTER TABLE runs ADD COLUMN IF NOT EXISTS fence text;
ALTER TABLE runs ADD COLUMN IF NOT EXISTS fence_at timestamptz;
ALTER TABLE runs ADD COLUMN IF NOT EXISTS fence_tries integer NOT NULL DEFAULT 0;
CREATE INDEX IF NOT EXISTS runs_to_fence ON runs (fence_at) WHERE fence_at IS NOT NULL;
