-- What a run has committed, by dataset and commit.
ALTER TABLE runs ADD COLUMN IF NOT EXISTS commits jsonb;
