-- Where intakes stand, by topic and partition.

-- name: ensure
-- Every partition of the topic has its position; a new one starts at 0.
INSERT INTO intake_positions (topic, partition, position)
SELECT $1, partition, 0 FROM generate_series(0, $2::integer - 1) AS partition
ON CONFLICT DO NOTHING;

-- name: positions
-- Where to go on reading.
SELECT partition, position FROM intake_positions WHERE topic = $1;
