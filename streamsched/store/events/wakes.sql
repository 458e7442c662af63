-- Wake-ups requested by folds. Positions: positions.sql.

-- name: take
-- One statement, so that requests and positions change together and no client can die or pause in between. A batch is
-- stored when the partition's position equals its start and is not locked. Each schedule and cell occurs once. Notifies
-- when one is due before $11; instances poll often enough for later ones.
WITH held AS MATERIALIZED (
    SELECT p.partition, b.next
    FROM intake_positions p
    JOIN unnest($2::integer[], $3::bigint[], $4::bigint[]) AS b (partition, start, next) USING (partition)
    WHERE p.topic = $1 AND p.position = b.start
    FOR UPDATE OF p SKIP LOCKED
), moved AS (
    UPDATE intake_positions p SET position = h.next
    FROM held h
    WHERE p.topic = $1 AND p.partition = h.partition
    RETURNING p.partition
), asked AS MATERIALIZED (
    SELECT a.*, s.id IS NULL OR s.deleted_at IS NOT NULL AS obsolete
    FROM unnest($5::integer[], $6::text[], $7::bytea[], $8::bigint[], $9::timestamptz[], $10::timestamptz[])
        AS a (partition, schedule, cell, generation, at, due_at)
    JOIN held h ON h.partition = a.partition
    LEFT JOIN schedules s ON s.id = a.schedule
), cancelled AS (
    DELETE FROM wakes w USING asked a
    WHERE w.schedule = a.schedule AND sha256(w.cell) = sha256(a.cell) AND (a.at IS NULL OR a.obsolete)
), stored AS (
    INSERT INTO wakes (schedule, cell, generation, at, due_at)
    SELECT schedule, cell, generation, at, due_at FROM asked
    WHERE at IS NOT NULL AND NOT obsolete
    ORDER BY schedule, cell
    ON CONFLICT (schedule, sha256(cell)) DO UPDATE
    SET generation = excluded.generation, at = excluded.at, due_at = excluded.due_at
    RETURNING due_at
), rung AS (
    SELECT pg_notify('timers', '') FROM stored WHERE due_at < $11 LIMIT 1
)
SELECT array(SELECT partition FROM moved) AS partitions,
    (SELECT count(*) FROM stored) AS stored,
    (SELECT count(*) FROM asked WHERE obsolete) AS obsolete,
    (SELECT count(*) FROM rung) AS rung;

-- name: claim
-- Due wake-ups, due longest first, without those locked by another instance; none while the clock does not say $3. Deleted with the commit of their records.
WITH due AS MATERIALIZED (
    SELECT id FROM wakes
    WHERE due_at <= $1 AND ($3::timestamptz IS NULL OR abs(extract(epoch FROM now() - $3::timestamptz)) < 5)
    ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
)
DELETE FROM wakes w USING due WHERE w.id = due.id
RETURNING w.schedule, w.cell, w.generation, w.at, (SELECT s.affinity FROM schedules s WHERE s.id = w.schedule) AS affinity;

-- name: put_off
-- Stores unreadable ones again, for later.
INSERT INTO wakes (schedule, cell, generation, at, due_at)
SELECT schedule, cell, generation, at, greatest(at, $5::timestamptz)
FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::timestamptz[]) AS a (schedule, cell, generation, at)
ON CONFLICT (schedule, sha256(cell)) DO NOTHING;

-- name: next_due
-- When the next wake-up is due.
SELECT due_at FROM wakes ORDER BY due_at LIMIT 1;
