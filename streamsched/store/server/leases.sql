-- Leases and the processes that hold them: table workers has a row with the heartbeat of each (of those that hold
-- partitions of lanes: task_owners). Expiry is judged by this server's clock alone. Rows are locked in the order of their
-- names, so concurrent holders cannot deadlock. An expiry ten or more lease times in the future was written before
-- the server's clock was set back and counts as expired. The bound is not one lease time: the clock may go back a little,
-- and holders may have different lease times. The caller says what the clock should say; while it says something else
-- (without a word: NULL, every clock will do) nothing counts as expired, for the clock may have jumped.

-- name: beat
-- One round trip: upserts the process's row, renews the leases it still owns, deletes processes without a heartbeat for
-- $6, and returns the live ones (a heartbeat within the lease time) and the leases like $9 with their seconds left. A
-- statement sees the changes of its own CTEs only through what they return.
WITH alive AS (
    INSERT INTO workers (id, host, pid, reads, seen_at) VALUES ($1, $2, $3, $4, now())
    ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, reads = excluded.reads,
        seen_at = excluded.seen_at
    RETURNING id, reads
), forgotten AS (
    DELETE FROM workers WHERE id IN (
        SELECT id FROM workers
        WHERE seen_at < now() - $6::interval AND id <> $1
            AND ($10::timestamptz IS NULL OR abs(extract(epoch FROM now() - $10::timestamptz)) < 5)
        FOR UPDATE SKIP LOCKED
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
    ) AS members,
    array(
        SELECT (l.name, l.owner, l.epoch,
            CASE WHEN until.at < now() + 10 * $5::interval THEN extract(epoch FROM until.at - now()) ELSE 0 END::float8,
            l.wanted_by, l.format)
        FROM leases l LEFT JOIN renewed r USING (name), coalesce(r.expires_at, l.expires_at) AS until (at)
        WHERE l.name LIKE $9::text
        ORDER BY l.name
    ) AS leases;

-- name: renew
-- Renews what is still this owner's, by epoch, also when expired and not claimed by another.
WITH own AS (
    SELECT l.name FROM leases l JOIN unnest($1::text[], $2::bigint[]) AS held (name, epoch) USING (name, epoch)
    WHERE l.owner = $3
    ORDER BY l.name FOR UPDATE OF l
)
UPDATE leases SET expires_at = now() + $4::interval FROM own WHERE leases.name = own.name
RETURNING leases.name;

-- name: claim
-- Claims free, expired or own leases; a row claimed concurrently is evaluated again under its lock.
INSERT INTO leases (name, owner, epoch, expires_at)
SELECT name, $2, 1, now() + $3::interval FROM unnest($1::text[]) AS wished (name) ORDER BY name
ON CONFLICT (name) DO UPDATE
SET owner = excluded.owner, epoch = leases.epoch + 1, expires_at = excluded.expires_at, wanted_by = NULL
WHERE (leases.owner = excluded.owner OR (
        (leases.expires_at <= now() OR leases.expires_at >= now() + 10 * $3::interval)
        AND ($5::timestamptz IS NULL OR abs(extract(epoch FROM now() - $5::timestamptz)) < 5)
    ))
    AND leases.format <= coalesce($4::integer, leases.format)
RETURNING name, epoch;

-- name: allow
-- Permits a newer format version under what is still this owner's.
WITH own AS (
    SELECT l.name FROM leases l JOIN unnest($1::text[], $2::bigint[]) AS held (name, epoch) USING (name, epoch)
    WHERE l.owner = $3
    ORDER BY l.name FOR UPDATE OF l
)
UPDATE leases SET format = greatest(format, $4) FROM own WHERE leases.name = own.name
RETURNING leases.name;

-- name: want
-- Asks the live owner to hand over.
WITH others AS (
    SELECT name FROM leases
    WHERE name = ANY ($1::text[]) AND owner <> $2 AND wanted_by IS DISTINCT FROM $2 AND expires_at > now()
    ORDER BY name FOR UPDATE
)
UPDATE leases SET wanted_by = $2 FROM others WHERE leases.name = others.name;

-- name: release
-- Releases what is still this owner's; the row stays, for its epoch.
WITH own AS (
    SELECT l.name FROM leases l JOIN unnest($1::text[], $2::bigint[]) AS held (name, epoch) USING (name, epoch)
    WHERE l.owner = $3
    ORDER BY l.name FOR UPDATE OF l
)
UPDATE leases SET expires_at = now() FROM own WHERE leases.name = own.name;

-- name: leave
-- Removes the process.
DELETE FROM workers WHERE id = $1;
