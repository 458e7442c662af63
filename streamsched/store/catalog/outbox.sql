-- Records on their way to the log. See ports/outbox.py and ADR 3.

-- name: write
-- In the order given; ids grow in that order. The table's trigger rings the relay when the transaction commits.
INSERT INTO outbox (topic, key, value)
SELECT topic, key, value
FROM unnest($1::text[], $2::text[], $3::bytea[]) WITH ORDINALITY AS given (topic, key, value, place)
ORDER BY place
RETURNING id;

-- name: unsent
-- Earlier records to these homes that the log may not have yet. The queue is nearly always empty.
SELECT id FROM outbox WHERE key = ANY ($1::text[]) ORDER BY id;

-- name: pending
-- The relay's read: an index scan from the smallest id, whatever the backlog. Beside the few that it passes over, and no
-- further than $3 bytes after the first record.
SELECT id, topic, key, value FROM (
    SELECT id, topic, key, value, sum(octet_length(key) + coalesce(octet_length(value), 0)) OVER (ORDER BY id) AS size,
        row_number() OVER (ORDER BY id) AS place
    FROM (SELECT id, topic, key, value FROM outbox WHERE id <> ALL ($2::bigint[]) ORDER BY id LIMIT $1) AS first
) AS sized
WHERE size <= $3 OR place = 1
ORDER BY id;

-- name: forget
-- Deletes acknowledged records; the same commit notifies those who wait for that.
WITH gone AS (DELETE FROM outbox WHERE id = ANY ($1::bigint[]) RETURNING id)
SELECT pg_notify('relayed', '') FROM (SELECT 1 FROM gone LIMIT 1) AS any_gone;

-- name: advance
-- No row when ids of the sequence have been used up to $1, as in every database that was not restored.
SELECT setval('outbox_id_seq', $1) FROM outbox_id_seq WHERE last_value < $1;

-- name: outstanding
-- A missing row was acknowledged.
SELECT count(*) FROM outbox WHERE id = ANY ($1::bigint[]);

-- name: between
-- How many of a span of ids are still here: an index scan of what waits, which is nearly always nothing.
SELECT count(*) FROM outbox WHERE id BETWEEN $1 AND $2;
