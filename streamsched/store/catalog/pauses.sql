-- Pauses with an end. A row whose generation is not its schedule's is ignored: another release resumed the schedule.

-- name: ended
-- Schedules whose pause has ended, the earliest first.
SELECT p.schedule FROM pauses p JOIN schedules s ON s.id = p.schedule AND s.generation = p.generation
WHERE p.until <= $1
ORDER BY p.until
LIMIT $2;

-- name: next_end
-- When the next pause ends.
SELECT p.until FROM pauses p JOIN schedules s ON s.id = p.schedule AND s.generation = p.generation
WHERE p.until IS NOT NULL
ORDER BY p.until
LIMIT 1;

-- name: streaks
-- Schedules to be paused because their runs failed, the earliest first.
SELECT schedule, generation, keep, until, note FROM breaks ORDER BY at LIMIT $1;

-- name: remove_streak
-- It was paused, or has changed since.
DELETE FROM breaks WHERE schedule = $1 AND generation = $2;
