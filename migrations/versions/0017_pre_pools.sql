-- Pools: places for runs, and the lines of jobs that wait for one.

-- The pool a schedule starts its runs in, and its priority there: what its definition says, and what was set online.
-- The table of schedules is rewritten; it has no history.
ALTER TABLE schedules
    ADD COLUMN pool text GENERATED ALWAYS AS (
        jsonb_path_query_first(definition, '$.constraints[*] ? (@.type == "POOL").pool') #>> '{}') STORED,
    ADD COLUMN priority integer GENERATED ALWAYS AS (
        jsonb_path_query_first(definition, '$.constraints[*] ? (@.type == "POOL").priority')::integer) STORED,
    ADD COLUMN priority_set integer CHECK (priority_set BETWEEN -1000 AND 1000);

-- A pool is a group named `pool:<name>`, so its places are freed as slots are. What a point of priority is worth, in
-- seconds; NULL: a minute.
ALTER TABLE groups ADD COLUMN age_s double precision CHECK (age_s >= 0);

-- Jobs that nothing but a place could hold back: those that just came, and those that were told to wait for one. The
-- row of a job that ended, or whose schedule left the pool, says nothing any more.
CREATE TABLE lines (
    job text PRIMARY KEY,
    pool text NOT NULL,
    turn_at timestamptz NOT NULL,              -- when it was satisfied, less its head start by priority
    sequence bigint NOT NULL
);
CREATE INDEX lines_in_order ON lines (pool, turn_at, sequence, job);
