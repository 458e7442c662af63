-- What is left of rates: a token bucket for each scope (a program, schedule, key of one, or group) under each rate.
CREATE TABLE meters (
    scope text NOT NULL,
    max_runs integer NOT NULL CHECK (max_runs > 0),
    per interval NOT NULL,
    burst integer NOT NULL CHECK (burst > 0),
    remaining double precision NOT NULL,       -- tokens at that time; below nothing when runs were launched all the same
    at timestamptz NOT NULL,
    full_at timestamptz NOT NULL,              -- when it is full again if nobody takes of it
    PRIMARY KEY (scope, max_runs, per, burst)
);
CREATE INDEX meters_full ON meters (full_at);
