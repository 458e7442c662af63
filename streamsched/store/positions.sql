-- Where intakes stand, by topic and partition.

-- name: ensure
-- Creates the position of each partition of the topic, at 0.
INSERT INTO intake_positions (topic, partition, position)
SELECT $1, partition, 0 FROM generate_series(0, $2::integer - 1) AS partition
ON CONFLICT DO NOTHING;

-- name: all_positions
-- How far each topic stored as rows is stored: those whose name has a prefix are none.
SELECT topic, partition, position FROM intake_positions WHERE topic NOT LIKE '%:%';

-- name: positions
-- The next position to read.
SELECT partition, position FROM intake_positions WHERE topic = $1;
