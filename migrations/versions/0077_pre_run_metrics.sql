-- What the engine of a run reports: codec/views/run_metrics.py. Not indexed, so that heartbeats stay cheap updates.
ALTER TABLE runs ADD COLUMN metrics jsonb;
