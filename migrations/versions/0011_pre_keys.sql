-- The open keys of schedules that correlate, as their homes keep them.
CREATE TABLE open_keys (
    schedule text NOT NULL,
    key text NOT NULL,
    generation bigint NOT NULL,
    state jsonb NOT NULL,  -- codec.state: one open key
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (schedule, key)
);
