-- Wake-ups that folds asked for. See ports/wakes.py; positions: positions.sql.

-- name: take
-- One statement, so that requests and positions change together and no client can die or sleep between the two.
-- A batch counts when its partition still stands where the batch starts and nobody else is at it. Each schedule and cell
-- comes once. The bell rings for what is due before $11, when everybody who sleeps will have looked by himself.
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
-- Due wake-ups, due longest first, but for those another instance has. They are gone when what they send is stored.
WITH due AS MATERIALIZED (
    SELECT id FROM wakes WHERE due_at <= $1 ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
)
DELETE FROM wakes w USING due WHERE w.id = due.id
RETURNING w.schedule, w.cell, w.generation, w.at;

-- name: next_due
-- How long the instances may sleep.
SELECT due_at FROM wakes ORDER BY due_at LIMIT 1;
