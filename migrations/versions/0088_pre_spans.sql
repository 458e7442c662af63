-- Spans (ADR 0146). A process that makes spans says so in its sessions (`streamsched.spans`, store/connections.py). Rows
-- that it inserts have spans that are due when the row has ended; rows of other processes have none, and are in no index.
ALTER TABLE jobs ADD COLUMN spans text DEFAULT CASE WHEN current_setting('streamsched.spans', true) = 'on' THEN 'due' END
    CONSTRAINT jobs_spans_check CHECK (spans IN ('due', 'sent', 'dropped'));
ALTER TABLE runs ADD COLUMN spans text DEFAULT CASE WHEN current_setting('streamsched.spans', true) = 'on' THEN 'due' END
    CONSTRAINT runs_spans_check CHECK (spans IN ('due', 'sent', 'dropped'));
CREATE INDEX jobs_spans_due ON jobs (ended_at) WHERE spans = 'due' AND ended_at IS NOT NULL;
CREATE INDEX runs_spans_due ON runs (ended_at) WHERE spans = 'due' AND ended_at IS NOT NULL;
