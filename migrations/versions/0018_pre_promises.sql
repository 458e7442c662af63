-- Deadlines that are still to come: a row goes when its time has come and what was to be done then is done, in one
-- transaction; one that is kept says nothing before. It says what was promised when the job was satisfied.
CREATE TABLE deadlines (
    job text NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    run text NOT NULL,                         -- of a duration the run it is about, else ''
    place smallint NOT NULL,                   -- among the deadlines of the schedule
    due_at timestamptz NOT NULL,
    said jsonb NOT NULL,                       -- codec.deadline
    PRIMARY KEY (job, run, place)
);
CREATE INDEX deadlines_due ON deadlines (due_at);

-- What a job has missed, for people. NULL: nothing.
ALTER TABLE jobs ADD COLUMN missed text[];

-- Schedules whose runs failed too often in a row: paused by the launchers if nobody has changed them since.
CREATE TABLE breaks (
    schedule text PRIMARY KEY REFERENCES schedules (id) ON DELETE CASCADE,
    generation bigint NOT NULL,                -- the one whose runs failed
    at timestamptz NOT NULL,
    keep boolean NOT NULL,
    until timestamptz,                         -- NULL: until somebody resumes it
    note text NOT NULL
);
