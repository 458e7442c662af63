-- Schedules, and programs that were started without one, whose latest run failed with its last attempt. See failing.py.

-- name: put
-- It fails since then, unless it did before.
INSERT INTO failing (owner, run, since) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

-- name: recovered
-- Those of these that failed before and do not any more, with since when.
DELETE FROM failing WHERE owner = ANY ($1::text[]) RETURNING owner, since;
