-- name: ensure
-- A bucket exists, full, once somebody asks for it; sorted, so that two who make the same ones never cross.
INSERT INTO meters (scope, max_runs, per, burst, remaining, at, full_at)
SELECT n.scope, n.max_runs, n.per, n.burst, n.burst, $1::timestamptz, $1::timestamptz
FROM unnest($2::text[], $3::integer[], $4::interval[], $5::integer[]) AS n (scope, max_runs, per, burst)
ORDER BY n.scope, n.max_runs, n.per, n.burst
ON CONFLICT DO NOTHING;

-- name: lock
-- Whoever holds these rows decides about their tokens.
SELECT scope, max_runs, per, burst, remaining, at FROM meters WHERE scope = ANY($1::text[])
ORDER BY scope, max_runs, per, burst
FOR UPDATE;

-- name: peek
-- The same, for who only looks.
SELECT scope, max_runs, per, burst, remaining, at FROM meters WHERE scope = ANY($1::text[]);

-- name: draw
-- So much is left then.
UPDATE meters m SET remaining = n.remaining, at = n.at, full_at = n.full_at
FROM unnest($1::text[], $2::integer[], $3::interval[], $4::integer[], $5::float8[], $6::timestamptz[], $7::timestamptz[])
    AS n (scope, max_runs, per, burst, remaining, at, full_at)
WHERE (m.scope, m.max_runs, m.per, m.burst) = (n.scope, n.max_runs, n.per, n.burst);

-- name: forget
-- Full since then: who asks again finds it full all the same.
DELETE FROM meters WHERE full_at < $1;
