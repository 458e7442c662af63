-- The next tick of each time leaf of each enabled schedule.

-- name: claim
-- Due timers, due longest first, without those locked by another instance and the generations in $3, which this one
-- cannot read; none while the clock does not say $4 (NULL: anything), which it should. A concurrent change of the schedule waits or has deleted the row, so leaf and generation belong together.
-- Of the definition only what a tick needs, as text: equal texts are decoded once.
SELECT t.schedule, t.leaf, t.generation, t.due_at, t.tick_at, s.created_at,
    s.definition ->> 'trigger' AS trigger, s.definition ->> 'misfire' AS misfire, s.definition ->> 'catchUp' AS catch_up,
    s.definition ->> 'overlap' AS overlap, s.affinity
FROM timers t
JOIN schedules s ON s.id = t.schedule
WHERE t.due_at <= $1 AND t.schedule || '.' || t.generation <> ALL ($3::text[])
    AND ($4::timestamptz IS NULL OR abs(extract(epoch FROM now() - $4::timestamptz)) < 5)
ORDER BY t.due_at
LIMIT $2
FOR UPDATE OF t SKIP LOCKED;

-- name: advance
-- Sets claimed timers to their next tick.
UPDATE timers t SET due_at = given.due_at, tick_at = given.tick_at
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[]) AS given (schedule, leaf, tick_at, due_at)
WHERE t.schedule = given.schedule AND t.leaf = given.leaf;

-- name: finish
-- Claimed timers without a next tick.
DELETE FROM timers t
USING unnest($1::text[], $2::text[]) AS given (schedule, leaf)
WHERE t.schedule = given.schedule AND t.leaf = given.leaf;

-- name: next_due
-- When the next timer is due; $1 as in claim.
SELECT t.due_at FROM timers t
WHERE t.schedule || '.' || t.generation <> ALL ($1::text[])
ORDER BY t.due_at
LIMIT 1;

-- name: page
-- Timers after a schedule and leaf, in order, with what `claim` reads; without those locked by another instance.
SELECT t.schedule, t.leaf, t.generation, t.due_at, t.tick_at, s.created_at,
    s.definition ->> 'trigger' AS trigger, s.definition ->> 'misfire' AS misfire, s.definition ->> 'catchUp' AS catch_up,
    s.definition ->> 'overlap' AS overlap, s.affinity
FROM timers t
JOIN schedules s ON s.id = t.schedule
WHERE (t.schedule, t.leaf) > ($1::text, $2::text)
ORDER BY t.schedule, t.leaf
LIMIT $3
FOR UPDATE OF t SKIP LOCKED;

-- name: notify
-- A timer may be due before the others.
SELECT pg_notify('timers', '');

-- name: last_review
-- Of all timers.
SELECT tzdata, judgement FROM ticks_reviewed;

-- name: note_review
-- All timers were reviewed.
INSERT INTO ticks_reviewed (tzdata, judgement, at) VALUES ($1, $2, $3)
ON CONFLICT (one) DO UPDATE SET tzdata = excluded.tzdata, judgement = excluded.judgement, at = excluded.at;
