-- Leases and the workers that hold them. Expiry is judged by this server's clock alone. Rows are locked in the order of
-- their names: holders that touch the same ones at the same moment wait for each other, and never in a circle.
-- What lies ten lease times or more in the future was written before the clock was set back, and by nobody since: it
-- counts as over. Not one lease time: a clock may go back a little, and holders be told different lease times.

-- name: beat
-- In one round trip, for a worker with much to do: it lives (its row is made by the first beat), holds on to what is
-- still its own, and sees the living (heard of within the interval) and how every lease stands, in seconds left. Workers
-- that died long ago are forgotten. A statement does not see what its own parts change but by what they return.
WITH alive AS (
    INSERT INTO workers (id, host, pid, reads, seen_at) VALUES ($1, $2, $3, $4, now())
    ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, reads = excluded.reads,
        seen_at = excluded.seen_at
    RETURNING id, reads
), forgotten AS (
    DELETE FROM workers WHERE id IN (
        SELECT id FROM workers WHERE seen_at < now() - $6::interval AND id <> $1 FOR UPDATE SKIP LOCKED
    )
), own AS (
    SELECT l.name FROM leases l JOIN unnest($7::text[], $8::bigint[]) AS held (name, epoch) USING (name, epoch)
    WHERE l.owner = $1
    ORDER BY l.name FOR UPDATE OF l
), renewed AS (
    UPDATE leases SET expires_at = now() + $5::interval FROM own WHERE leases.name = own.name
    RETURNING leases.name, leases.expires_at
)
SELECT
    array(
        SELECT (each.id, each.reads) FROM (
            SELECT id, reads FROM workers
            WHERE seen_at > now() - $5::interval AND seen_at < now() + 10 * $5::interval AND id <> $1
            UNION ALL SELECT id, reads FROM alive
        ) each ORDER BY each.id
    ) AS workers,
    array(
        SELECT (l.name, l.owner, l.epoch,
            CASE WHEN until.at < now() + 10 * $5::interval THEN extract(epoch FROM until.at - now()) ELSE 0 END::float8,
            l.wanted_by, l.format)
        FROM leases l LEFT JOIN renewed r USING (name), coalesce(r.expires_at, l.expires_at) AS until (at)
        ORDER BY l.name
    ) AS leases;

-- name: renew
-- Holds on to what is still this owner's, epoch by epoch, expired or not: nobody else wanted it.
WITH own AS (
    SELECT l.name FROM leases l JOIN unnest($1::text[], $2::bigint[]) AS held (name, epoch) USING (name, epoch)
    WHERE l.owner = $3
    ORDER BY l.name FOR UPDATE OF l
)
UPDATE leases SET expires_at = now() + $4::interval FROM own WHERE leases.name = own.name
RETURNING leases.name;

-- name: claim
-- Takes what is free, expired or its own; a row that another takes at the same moment is judged again under its lock.
INSERT INTO leases (name, owner, epoch, expires_at)
SELECT name, $2, 1, now() + $3::interval FROM unnest($1::text[]) AS wished (name) ORDER BY name
ON CONFLICT (name) DO UPDATE
SET owner = excluded.owner, epoch = leases.epoch + 1, expires_at = excluded.expires_at, wanted_by = NULL
WHERE (leases.expires_at <= now() OR leases.expires_at >= now() + 10 * $3::interval OR leases.owner = excluded.owner)
    AND leases.format <= coalesce($4::integer, leases.format)
RETURNING name, epoch;

-- name: allow
-- A newer version may be written under what is still this owner's.
WITH own AS (
    SELECT l.name FROM leases l JOIN unnest($1::text[], $2::bigint[]) AS held (name, epoch) USING (name, epoch)
    WHERE l.owner = $3
    ORDER BY l.name FOR UPDATE OF l
)
UPDATE leases SET format = greatest(format, $4) FROM own WHERE leases.name = own.name
RETURNING leases.name;

-- name: want
-- Leaves word with the living owner that somebody waits.
WITH others AS (
    SELECT name FROM leases
    WHERE name = ANY ($1::text[]) AND owner <> $2 AND wanted_by IS DISTINCT FROM $2 AND expires_at > now()
    ORDER BY name FOR UPDATE
)
UPDATE leases SET wanted_by = $2 FROM others WHERE leases.name = others.name;

-- name: release
-- Gives back what is still this owner's; the row stays, for its epoch.
WITH own AS (
    SELECT l.name FROM leases l JOIN unnest($1::text[], $2::bigint[]) AS held (name, epoch) USING (name, epoch)
    WHERE l.owner = $3
    ORDER BY l.name FOR UPDATE OF l
)
UPDATE leases SET expires_at = now() FROM own WHERE leases.name = own.name;

-- name: leave
-- The worker is gone for good.
DELETE FROM workers WHERE id = $1;
