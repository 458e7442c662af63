-- How much of a shared pace is left; a row comes into being with its first use.
CREATE TABLE buckets (
    name text PRIMARY KEY,
    remaining double precision NOT NULL,
    at timestamptz NOT NULL
);
