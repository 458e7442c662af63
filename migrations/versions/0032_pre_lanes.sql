-- The waiting jobs of each lane: those of a schedule, or of one key of it, of which so many run at a time. The row of a
-- job that ended says nothing any more.
CREATE TABLE lane_waits (
    job text NOT NULL,
    schedule text NOT NULL,
    scope text NOT NULL CONSTRAINT lane_waits_scope CHECK (scope IN ('schedule', 'key')),
    key_hash text NOT NULL,                    -- MD5 of the key, which may be longer than an index entry; '' for a schedule
    satisfied_at timestamptz NOT NULL,
    sequence bigint NOT NULL,
    PRIMARY KEY (job, scope)
);
CREATE INDEX lane_waits_in_order ON lane_waits (schedule, scope, key_hash, satisfied_at, sequence, job);
