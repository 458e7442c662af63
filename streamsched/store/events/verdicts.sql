-- What became of events. Positions: positions.sql.

-- name: move
-- The partitions whose position equals the start of their batch and is not locked; locked until the commit.
WITH held AS MATERIALIZED (
    SELECT p.partition, b.next
    FROM intake_positions p
    JOIN unnest($2::integer[], $3::bigint[], $4::bigint[]) AS b (partition, start, next) USING (partition)
    WHERE p.topic = $1 AND p.position = b.start
    FOR UPDATE OF p SKIP LOCKED
)
UPDATE intake_positions p SET position = h.next
FROM held h
WHERE p.topic = $1 AND p.partition = h.partition
RETURNING p.partition;

-- name: make_parts
-- Creates the partitions of the rows to store.
SELECT make_part_v1('verdicts', begins, ends)
FROM unnest($1::timestamptz[], $2::timestamptz[]) AS part (begins, ends) ORDER BY begins;

-- name: drop_part
-- As jobs/archive.sql, drop_part.
SELECT drop_part_v1('verdicts', $1);

-- name: count
-- Adds the rows of one copy to the totals; in order of the key, the lock order.
INSERT INTO verdict_totals AS known (subject, verdict, late, total, last_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::timestamptz[])
    AS given (subject, verdict, late, total, last_at)
ORDER BY subject, verdict, late
ON CONFLICT (subject, verdict, late) DO UPDATE SET
    total = known.total + excluded.total, last_at = greatest(known.last_at, excluded.last_at);
