-- What must be there by which time (ADR 178): each expectation between two due times.
CREATE TABLE IF NOT EXISTS expectations (
    id text PRIMARY KEY,                       -- namespace.app.name
    app text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('dataset', 'schedule')),
    subject text NOT NULL,                     -- the dataset or schedule
    definition jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    since timestamptz NOT NULL,                -- what came up to then does not count for the due time
    due_at timestamptz,                        -- NULL: it is not due any more
    starts timestamp,                          -- when the period of the due time starts on the zone's clock
    opens_at timestamptz,                      -- the same as an instant, of one that is due at its usual time
    learning boolean NOT NULL DEFAULT false,   -- its usual time is not known: the due time is the end of the period
    recent bigint[] NOT NULL DEFAULT '{}',     -- seconds from the start of a period until it came, the newest last
    open_misses integer NOT NULL DEFAULT 0,    -- misses whose subject may still come
    stirred boolean NOT NULL DEFAULT false,    -- something came for one of these
    stopped text,                              -- why it is not judged any more; NULL: it is
    CONSTRAINT expectations_period CHECK ((due_at IS NULL) = (starts IS NULL)),
    CONSTRAINT expectations_stopped CHECK (stopped IS NULL OR due_at IS NULL)
);
CREATE INDEX IF NOT EXISTS expectations_due ON expectations (kind, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS expectations_stirred ON expectations (id) WHERE stirred;
CREATE INDEX IF NOT EXISTS expectations_of_subject ON expectations (kind, subject);
CREATE INDEX IF NOT EXISTS expectations_of_app ON expectations (app);
CREATE INDEX IF NOT EXISTS expectations_missed ON expectations (id) WHERE open_misses > 0;

-- Due times at which something was not there; one row each, for people.
CREATE TABLE IF NOT EXISTS expectation_misses (
    expectation text NOT NULL REFERENCES expectations ON DELETE CASCADE,
    due_at timestamptz NOT NULL,
    starts timestamp NOT NULL,
    key text NOT NULL,                         -- the partition or key that was missing; '': any would have done
    reason text NOT NULL,
    found_at timestamptz NOT NULL,             -- when it was judged
    announced boolean NOT NULL,                -- false: a later due time had passed too
    open boolean NOT NULL,                     -- it may still come
    came_at timestamptz,
    PRIMARY KEY (expectation, due_at),
    CONSTRAINT expectation_misses_came CHECK (came_at IS NULL OR NOT open)
);
CREATE INDEX IF NOT EXISTS expectation_misses_recent ON expectation_misses (found_at);

-- When commits of datasets, and completed runs of schedules, that expectations are about came: each once, and of the
-- keys that they name the first.
CREATE TABLE IF NOT EXISTS evidence (
    kind text NOT NULL,
    subject text NOT NULL,
    mark bytea NOT NULL,                       -- of the event or run, so that a repeat is recognised
    at timestamptz NOT NULL,                   -- when the log had it, or when the run ended
    PRIMARY KEY (kind, subject, mark)
);
CREATE INDEX IF NOT EXISTS evidence_in_order ON evidence (kind, subject, at);
CREATE TABLE IF NOT EXISTS evidence_keys (
    kind text NOT NULL,
    subject text NOT NULL,
    key text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (kind, subject, key)
);
CREATE INDEX IF NOT EXISTS evidence_keys_in_order ON evidence_keys (kind, subject, at);
-- Up to which instant all of a kind has been read.
CREATE TABLE IF NOT EXISTS evidence_read (
    kind text PRIMARY KEY,
    at timestamptz NOT NULL
);
-- How far readers of the history have read it.
CREATE TABLE IF NOT EXISTS history_readers (
    name text PRIMARY KEY,
    position bigint NOT NULL CHECK (position >= 0)
);

ALTER TABLE decisions DROP CONSTRAINT IF EXISTS decisions_subject_kind_check;
ALTER TABLE decisions ADD CONSTRAINT decisions_subject_kind_check CHECK (subject_kind IN
    ('app', 'program', 'schedule', 'job', 'run', 'group', 'namespace', 'queue', 'task', 'expectation')) NOT VALID;
