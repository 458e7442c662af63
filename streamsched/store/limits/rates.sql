-- name: ensure
-- Creates buckets on first use, full; sorted, so that concurrent creations do not deadlock.
INSERT INTO meters (scope, max_runs, per, burst, remaining, at, full_at)
SELECT n.scope, n.max_runs, n.per, n.burst, n.burst, $1::timestamptz, $1::timestamptz
FROM unnest($2::text[], $3::integer[], $4::interval[], $5::integer[]) AS n (scope, max_runs, per, burst)
ORDER BY n.scope, n.max_runs, n.per, n.burst
ON CONFLICT DO NOTHING;

-- name: lock
-- The holder of these locks takes tokens.
SELECT scope, max_runs, per, burst, remaining, at FROM meters WHERE scope = ANY($1::text[])
ORDER BY scope, max_runs, per, burst
FOR UPDATE;

-- name: peek
-- The same without locks.
SELECT scope, max_runs, per, burst, remaining, at FROM meters WHERE scope = ANY($1::text[]);

-- name: draw
-- Stores the remaining tokens.
UPDATE meters m SET remaining = n.remaining, at = n.at, full_at = n.full_at
FROM unnest($1::text[], $2::integer[], $3::interval[], $4::integer[], $5::float8[], $6::timestamptz[], $7::timestamptz[])
    AS n (scope, max_runs, per, burst, remaining, at, full_at)
WHERE (m.scope, m.max_runs, m.per, m.burst) = (n.scope, n.max_runs, n.per, n.burst);

-- name: forget
-- Full since then: a missing bucket counts as full.
DELETE FROM meters WHERE full_at < $1;
