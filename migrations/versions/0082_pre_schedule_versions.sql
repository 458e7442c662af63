-- The definitions that a schedule has had, the newest 50 of each. A pause or an enabling makes a generation without a
-- version of its own. See ports/catalog.py.
CREATE TABLE schedule_versions (
    schedule text NOT NULL,
    generation bigint NOT NULL CHECK (generation > 0),  -- the first with this definition
    at timestamptz NOT NULL,
    reason text NOT NULL,
    definition jsonb NOT NULL,
    PRIMARY KEY (schedule, generation)
);
