-- The instances of apps that get Dapr jobs.

-- name: beat
-- Adds instances or renews their heartbeats; forgets those of endpoints that ended long ago.
WITH forgotten AS (
    DELETE FROM dapr_instances WHERE (queue, address) IN (
        SELECT queue, address FROM dapr_instances WHERE seen_at < now() - interval '1 hour'
        FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO dapr_instances (queue, address, token, seen_at)
SELECT queue, address, token, now() FROM unnest($1::text[], $2::text[], $3::text[]) AS given (queue, address, token)
ORDER BY queue, address
ON CONFLICT (queue, address) DO UPDATE SET token = excluded.token, seen_at = excluded.seen_at;

-- name: remove
-- Removes instances.
DELETE FROM dapr_instances d USING unnest($1::text[], $2::text[]) AS given (queue, address)
WHERE d.queue = given.queue AND d.address = given.address;

-- name: live
-- The instances seen lately.
SELECT queue, address, token FROM dapr_instances WHERE seen_at BETWEEN now() - $1::interval AND now() + $1::interval ORDER BY queue, address;
