-- How runs that OpenLineage tells of have ended, so that a contradiction later does not count.
CREATE TABLE IF NOT EXISTS lineage_ends (
    program text NOT NULL,
    run text NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('succeeded', 'failed', 'killed')),
    at timestamptz NOT NULL,
    PRIMARY KEY (program, run)
);
CREATE INDEX IF NOT EXISTS lineage_ends_by_age ON lineage_ends (at);
