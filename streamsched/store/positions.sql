-- Where intakes stand, by topic and partition.

-- name: ensure
-- Creates the position of each partition of the topic, at 0.
INSERT INTO intake_positions (topic, partition, position)
SELECT $1, partition, 0 FROM generate_series(0, $2::integer - 1) AS partition
ON CONFLICT DO NOTHING;

-- name: positions
-- The next position to read.
SELECT partition, position FROM intake_positions WHERE topic = $1;
