-- Spans (ADR 0146). A process that makes spans says so in its sessions (`streamsched.spans`, store/connections.py). Rows
-- that it inserts have spans that are due when the row has ended; rows of other processes have none, and are in no index.
ALTER TABLE jobs ADD COLUMN IF NOT EXISTS spans text
    DEFAULT CASE WHEN current_setting('streamsched.spans', true) = 'on' THEN 'due' END;
ALTER TABLE jobs DROP CONSTRAINT IF EXISTS jobs_spans,
    ADD CONSTRAINT jobs_spans CHECK (spans IN ('due', 'sent', 'dropped')) NOT VALID;
ALTER TABLE runs ADD COLUMN IF NOT EXISTS spans text
    DEFAULT CASE WHEN current_setting('streamsched.spans', true) = 'on' THEN 'due' END;
ALTER TABLE runs DROP CONSTRAINT IF EXISTS runs_spans,
    ADD CONSTRAINT runs_spans CHECK (spans IN ('due', 'sent', 'dropped')) NOT VALID;
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_spans_due ON jobs (ended_at) WHERE spans = 'due' AND ended_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_spans_due ON runs (ended_at) WHERE spans = 'due' AND ended_at IS NOT NULL;
