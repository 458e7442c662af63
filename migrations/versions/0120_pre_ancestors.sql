-- From which jobs of which programs a job descends, by digests (codec.events.ancestors); NULL: from none.
ALTER TABLE jobs ADD COLUMN IF NOT EXISTS ancestors jsonb;
