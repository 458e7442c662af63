-- Whether who set a Spark profile has the permission `shell` (ADR 152). Of profiles that were set before, that is not
-- known: they go on. The previous release does not write it, and did not ask for it.
ALTER TABLE spark_profiles ADD COLUMN IF NOT EXISTS shell boolean NOT NULL DEFAULT true;
