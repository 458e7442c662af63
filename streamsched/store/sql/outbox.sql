-- Records on their way to the log. See ports/outbox.py and ADR 0002.

-- name: write
-- In the order given; ids grow in that order. The table's trigger rings the relay when the transaction commits.
INSERT INTO outbox (topic, key, value)
SELECT topic, key, value
FROM unnest($1::text[], $2::text[], $3::bytea[]) WITH ORDINALITY AS given (topic, key, value, place)
ORDER BY place
RETURNING id;

-- name: unsent
-- What somebody wrote to these homes before and the log may not have yet. A queue that is nearly always empty.
SELECT id FROM outbox WHERE key = ANY ($1::text[]) ORDER BY id;

-- name: pending
-- The relay's read: an index scan from the smallest id, whatever the backlog. Beside the few that it passes over.
SELECT id, topic, key, value FROM outbox WHERE id <> ALL ($2::bigint[]) ORDER BY id LIMIT $1;

-- name: forget
-- What the log has acknowledged goes, and those who wait for it are woken by the same commit.
WITH gone AS (DELETE FROM outbox WHERE id = ANY ($1::bigint[]) RETURNING id)
SELECT pg_notify('relayed', '') FROM (SELECT 1 FROM gone LIMIT 1) AS any_gone;

-- name: outstanding
-- A row that is gone has been acknowledged.
SELECT count(*) FROM outbox WHERE id = ANY ($1::bigint[]);
