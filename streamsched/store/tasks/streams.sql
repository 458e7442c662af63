-- Where workers reach the owners of tasks.

-- name: announce
-- Shows the address of an owner, and forgets those that were not shown for long.
WITH forgotten AS (
    DELETE FROM task_streams WHERE owner IN (
        SELECT owner FROM task_streams WHERE seen_at < now() - interval '1 hour' AND owner <> $1 FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO task_streams (owner, url, seen_at) VALUES ($1, $2, now())
ON CONFLICT (owner) DO UPDATE SET url = excluded.url, seen_at = excluded.seen_at;

-- name: withdraw
-- The owner stops.
DELETE FROM task_streams WHERE owner = $1;

-- name: list
-- The owners that were shown lately.
SELECT owner, url FROM task_streams WHERE seen_at BETWEEN now() - interval '15 seconds' AND now() + interval '15 seconds' ORDER BY owner;
