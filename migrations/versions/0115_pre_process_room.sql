-- Room for the processes of runs, shared by namespaces, pools and priorities: domain/constraints/process_room.py.

-- The pool of a run, and its place in the order of its namespace and pool (NULL: when it was created).
ALTER TABLE runs ADD COLUMN pool text, ADD COLUMN turn_at timestamptz;

-- How many processes a launcher has places for; NULL of one that does not say so.
ALTER TABLE launchers ADD COLUMN host_places integer, ADD COLUMN cluster_places integer;

-- Jobs that lack only a place for their process.
CREATE TABLE room_waits (
    job text PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    kind text NOT NULL,                 -- of process: host or cluster
    namespace text NOT NULL,
    pool text NOT NULL,                 -- empty: none
    turn_at timestamptz NOT NULL
);
CREATE INDEX room_waits_in_order ON room_waits (kind, namespace, pool, turn_at, job);

-- When a namespace and pool last got a place.
CREATE TABLE room_shares (
    kind text,
    namespace text,
    pool text,
    served_at timestamptz NOT NULL,
    PRIMARY KEY (kind, namespace, pool)
);
