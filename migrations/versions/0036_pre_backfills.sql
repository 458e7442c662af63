-- A backfill: many jobs of one schedule over a span, as one object.
CREATE TABLE backfills (
    id text PRIMARY KEY CONSTRAINT backfills_id CHECK (starts_with(id, schedule || '.backfill-')),
    schedule text NOT NULL,
    request jsonb NOT NULL,                    -- codec.backfills: what a person asked for
    state text NOT NULL CONSTRAINT backfills_state CHECK (state IN ('RUNNING', 'PAUSED', 'CANCELLED', 'COMPLETED')),
    reason text NOT NULL DEFAULT '',           -- why it is in this state, for people
    max_active integer NOT NULL CONSTRAINT backfills_max_active CHECK (max_active > 0),
    newest_first boolean NOT NULL,
    items integer NOT NULL,                    -- its jobs, made or not
    skipped integer NOT NULL,                  -- of its span, left out by `only`
    active integer NOT NULL DEFAULT 0,         -- items in these states; the others wait
    succeeded integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    dropped integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,           -- when it entered its state
    ended_at timestamptz,
    fed_at timestamptz NOT NULL,               -- when a launcher last checked it
    CONSTRAINT backfills_ended CHECK ((ended_at IS NOT NULL) = (state IN ('CANCELLED', 'COMPLETED'))),
    CONSTRAINT backfills_counts CHECK (least(items, skipped, active, succeeded, failed, dropped) >= 0
        AND active + succeeded + failed + dropped <= items)
);
CREATE INDEX backfills_to_feed ON backfills (fed_at, id) WHERE state = 'RUNNING' OR active > 0;
CREATE INDEX backfills_recent ON backfills (created_at DESC, id DESC);
CREATE INDEX backfills_of_schedule ON backfills (schedule, created_at DESC, id DESC);
CREATE INDEX backfills_to_forget ON backfills (ended_at) WHERE ended_at IS NOT NULL;

-- One job of a backfill; the job's id is backfill || '.' || number.
CREATE TABLE backfill_items (
    backfill text NOT NULL REFERENCES backfills (id) ON DELETE CASCADE,
    number integer NOT NULL,                   -- in the order of its span, from 1
    state text NOT NULL CONSTRAINT backfill_items_state
        CHECK (state IN ('WAITING', 'ACTIVE', 'SUCCEEDED', 'FAILED', 'DROPPED')),
    ready jsonb NOT NULL,                      -- codec.launch: its events, key and logical time
    PRIMARY KEY (backfill, number)
);
CREATE INDEX backfill_items_in_state ON backfill_items (backfill, state, number);

-- The backfill of a job. `satisfied_at` of such a job is its place among waiting jobs: after all others.
ALTER TABLE jobs ADD COLUMN backfill text;
