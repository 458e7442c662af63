-- Tasks from topics of a log: their records become tasks in the transaction that moves the position.

-- name: lock
-- The partitions whose batch begins at the stored position, locked; one that another intake stores is left out.
SELECT p.partition
FROM intake_positions p JOIN unnest($2::integer[], $3::bigint[]) AS given (partition, start)
    ON p.partition = given.partition AND p.position = given.start
WHERE p.topic = $1
ORDER BY p.partition FOR UPDATE OF p SKIP LOCKED;

-- name: advance
-- Moves locked positions.
UPDATE intake_positions p SET position = given.next
FROM unnest($2::integer[], $3::bigint[]) AS given (partition, next)
WHERE p.topic = $1 AND p.partition = given.partition;
