-- This server's clock, and what processes judged about it: domain/clock_judge.py.

-- name: measure
-- The clock, within the years that Python has, and the newest judgement.
SELECT least(greatest(clock_timestamp(), timestamptz '0002-01-01 00:00Z'), timestamptz '9998-12-31 00:00Z') AS theirs,
    j.number, j.fact, j.ahead_s, j.until, j.at, j.judged_by
FROM (SELECT) AS clock LEFT JOIN LATERAL (
    SELECT * FROM clock_judgements ORDER BY number DESC LIMIT 1
) AS j ON true;

-- name: judge
-- Stores a judgement, unless another was stored under its number; the last thousand are kept.
WITH old AS (
    DELETE FROM clock_judgements WHERE number <= $1::bigint - 1000
)
INSERT INTO clock_judgements (number, fact, ahead_s, until, at, theirs, judged_by)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT DO NOTHING
RETURNING number;
