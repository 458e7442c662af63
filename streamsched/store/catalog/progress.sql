-- The read model of accumulations, and the positions of its copy.

-- name: move
-- Compare and set: no row when the position is not $4. The row's lock excludes a second copy until commit.
INSERT INTO intake_positions AS known (topic, partition, position) VALUES ($1, $2, $3)
ON CONFLICT (topic, partition) DO UPDATE SET position = excluded.position WHERE known.position = $4::bigint
RETURNING position;

-- name: forget_positions
-- The topic is replaced by another.
DELETE FROM intake_positions WHERE topic = $1;

-- name: put
-- The newest state of each schedule of one read.
INSERT INTO trigger_progress (schedule, generation, sequence, progress, updated_at)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::jsonb[], $5::timestamptz[])
ON CONFLICT (schedule) DO UPDATE SET
    generation = excluded.generation, sequence = excluded.sequence, progress = excluded.progress,
    updated_at = excluded.updated_at;

-- name: remove
-- Removed schedules.
DELETE FROM trigger_progress WHERE schedule = ANY ($1::text[]);

-- name: put_keys
-- The newest state of each open key of one read.
INSERT INTO open_keys (schedule, key, whole, generation, state, updated_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::jsonb[], $6::timestamptz[])
ON CONFLICT (schedule, key) DO UPDATE SET
    generation = excluded.generation, state = excluded.state, updated_at = excluded.updated_at;

-- name: close_keys
-- Keys that fired, expired or were dropped.
DELETE FROM open_keys k USING unnest($1::text[], $2::text[]) AS gone (schedule, key)
WHERE k.schedule = gone.schedule AND k.key = gone.key;

-- name: forget_keys
-- Keys of removed schedules.
DELETE FROM open_keys WHERE schedule = ANY ($1::text[]);

-- name: put_halts
-- Schedules in error.
INSERT INTO schedule_halts (schedule, halt, updated_at)
SELECT * FROM unnest($1::text[], $2::jsonb[], $3::timestamptz[])
ON CONFLICT (schedule) DO UPDATE SET halt = excluded.halt, updated_at = excluded.updated_at;

-- name: remove_halts
-- Schedules no longer in error.
DELETE FROM schedule_halts WHERE schedule = ANY ($1::text[]);

-- name: keys
-- A page of the open keys of a schedule.
SELECT coalesce(whole, key) AS key, generation, state, updated_at AS at FROM open_keys
WHERE schedule = $1 AND open_keys.key > $2
ORDER BY open_keys.key
LIMIT $3;

-- name: newest_keys
-- The last open keys of a schedule, the last one first.
SELECT coalesce(whole, key) AS key, generation, state, updated_at AS at FROM open_keys
WHERE schedule = $1
ORDER BY open_keys.key DESC
LIMIT $2;
