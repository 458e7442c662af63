-- The processes of the installation.

-- name: put
-- What a process says of itself. Those that have said nothing for an hour are forgotten.
WITH gone AS (
    DELETE FROM processes WHERE id IN (
        SELECT id FROM processes WHERE seen_at < now() - interval '1 hour' AND id <> $1 FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO processes (id, role, host, pid, release, tzdata, own_ahead_s, seen_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, now())
ON CONFLICT (id) DO UPDATE SET role = excluded.role, host = excluded.host, pid = excluded.pid,
    release = excluded.release, tzdata = excluded.tzdata, own_ahead_s = excluded.own_ahead_s, seen_at = excluded.seen_at;

-- name: live
-- Those that have said something within two minutes.
SELECT id, role, host, pid, release, tzdata, own_ahead_s FROM processes
WHERE seen_at BETWEEN now() - interval '2 minutes' AND now() + interval '2 minutes' ORDER BY id LIMIT 1000;
