-- Leases and the workers that hold them. Expiry is judged by this server's clock alone.

-- name: alive
-- A worker says that it lives; its row is made by the first beat.
INSERT INTO workers (id, host, pid, seen_at) VALUES ($1, $2, $3, now())
ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, seen_at = excluded.seen_at;

-- name: renew
-- Holds on to what is still this owner's, epoch by epoch, expired or not: nobody else wanted it.
UPDATE leases SET expires_at = now() + $4::interval
FROM unnest($1::text[], $2::bigint[]) AS held (name, epoch)
WHERE leases.name = held.name AND leases.epoch = held.epoch AND leases.owner = $3
RETURNING leases.name;

-- name: claim
-- Takes what is free, expired or its own; a row that another takes at the same moment is judged again under its lock.
INSERT INTO leases (name, owner, epoch, expires_at)
SELECT name, $2, 1, now() + $3::interval FROM unnest($1::text[]) AS wished (name) ORDER BY name
ON CONFLICT (name) DO UPDATE
SET owner = excluded.owner, epoch = leases.epoch + 1, expires_at = excluded.expires_at, wanted_by = NULL
WHERE leases.expires_at <= now() OR leases.owner = excluded.owner
RETURNING name, epoch;

-- name: want
-- Leaves word with the living owner that somebody waits.
UPDATE leases SET wanted_by = $2
WHERE name = ANY ($1::text[]) AND owner <> $2 AND wanted_by IS DISTINCT FROM $2 AND expires_at > now();

-- name: release
-- Gives back what is still this owner's; the row stays, for its epoch.
UPDATE leases SET expires_at = now()
FROM unnest($1::text[], $2::bigint[]) AS held (name, epoch)
WHERE leases.name = held.name AND leases.epoch = held.epoch AND leases.owner = $3;

-- name: leave
-- The worker is gone for good.
DELETE FROM workers WHERE id = $1;

-- name: forget
-- Workers that died long ago; their leases were taken over since.
DELETE FROM workers WHERE seen_at < now() - $1::interval;

-- name: workers
-- The living: heard of within the interval.
SELECT id FROM workers WHERE seen_at > now() - $1::interval ORDER BY id;

-- name: leases
-- How every lease stands, in seconds left.
SELECT name, owner, epoch, extract(epoch FROM expires_at - now())::float8 AS expires_in, wanted_by
FROM leases ORDER BY name;
