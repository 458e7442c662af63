-- What clusters say of their load, asked for while jobs wait for it.
CREATE TABLE clusters (
    name text PRIMARY KEY,
    reading jsonb,                             -- codec.constraint: the last one; NULL: none yet
    at timestamptz,                            -- when it was taken
    failed text,                               -- why the probe brings nothing
    failing timestamptz,                       -- since when
    asked_until timestamptz NOT NULL DEFAULT 'epoch'  -- somebody is asking, or has just failed to
);

-- A gate for each set of terms, as the readings so far have left it.
CREATE TABLE gates (
    cluster text NOT NULL REFERENCES clusters (name),
    terms jsonb NOT NULL,                      -- codec.constraint: the LOAD constraint
    open boolean NOT NULL DEFAULT false,
    since timestamptz,                         -- when it opened or shut; NULL: it never saw a reading
    at timestamptz,                            -- of the reading it stands by
    started integer NOT NULL DEFAULT 0,        -- runs that reading let start
    PRIMARY KEY (cluster, terms)
);

-- Who is woken when a gate lets one through: the jobs whose last ruling was to wait for it.
CREATE TABLE gate_waits (
    job text PRIMARY KEY,
    cluster text NOT NULL,
    terms jsonb NOT NULL,
    satisfied_at timestamptz NOT NULL
);
CREATE INDEX gate_waits_in_order ON gate_waits (cluster, terms, satisfied_at, job);
