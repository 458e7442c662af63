-- Expectations and recipients of an app. Locked with the app, before schedules' jobs; a deployment waits for a judgement.

-- name: expectations
-- Those of an app.
SELECT id, definition, stopped FROM expectations WHERE app = $1 ORDER BY id;

-- name: recipients
-- Who is notified of the failures of an app, in the order of its definition.
SELECT definition FROM notice_recipients WHERE app = $1 ORDER BY place;

-- name: lock
-- Some expectations with what was seen for them, in id order, the lock order.
SELECT id, app, definition, since, due_at, starts, opens_at, learning, recent, open_misses, stopped
FROM expectations WHERE id = ANY ($1::text[]) ORDER BY id FOR UPDATE;

-- name: put
-- Stores expectations; what has been missed stays.
INSERT INTO expectations AS known
    (id, app, kind, subject, definition, created_at, changed_at, since, due_at, starts, opens_at, learning, recent)
SELECT id, $2, kind, subject, definition, $5::timestamptz, $5::timestamptz, since, due_at, starts, opens_at, learning,
    recent::bigint[]
FROM unnest(
    $1::text[], $3::text[], $4::text[], $6::jsonb[], $7::timestamptz[], $8::timestamptz[], $9::timestamp[],
    $10::timestamptz[], $11::boolean[], $12::text[]
) AS given (id, kind, subject, definition, since, due_at, starts, opens_at, learning, recent)
ORDER BY id
ON CONFLICT (id) DO UPDATE SET
    kind = excluded.kind, subject = excluded.subject, definition = excluded.definition, changed_at = excluded.changed_at,
    since = excluded.since, due_at = excluded.due_at, starts = excluded.starts, opens_at = excluded.opens_at,
    learning = excluded.learning, recent = excluded.recent, stopped = NULL;

-- name: close_misses
-- What was missing of expectations that expect something else now will not be looked for any more.
WITH closed AS (
    UPDATE expectation_misses SET open = false WHERE expectation = ANY ($1::text[]) AND open
)
UPDATE expectations SET open_misses = 0, stirred = false WHERE id = ANY ($1::text[]);

-- name: remove
-- Removes expectations with their misses.
DELETE FROM expectations WHERE id = ANY ($1::text[]);

-- name: ring
-- One may be due before the others.
SELECT pg_notify('timers', '');

-- name: keep_recipients
-- Removes the recipients of an app that are not among these.
DELETE FROM notice_recipients WHERE app = $1 AND NOT id = ANY ($2::text[]);

-- name: put_recipients
-- Stores recipients; one that is there keeps what waits for it.
INSERT INTO notice_recipients (id, app, place, definition) SELECT id, $1, place, definition
FROM unnest($2::text[], $3::jsonb[]) WITH ORDINALITY AS given (id, definition, place)
ON CONFLICT (id) DO UPDATE SET place = excluded.place;

-- name: stop
-- Ends the evaluation of expectations, for a reason.
WITH closed AS (
    UPDATE expectation_misses SET open = false WHERE expectation = ANY ($1::text[]) AND open
)
UPDATE expectations SET due_at = NULL, starts = NULL, opens_at = NULL, open_misses = 0, stirred = false, stopped = $2
WHERE id = ANY ($1::text[]) AND stopped IS NULL;

-- name: foreign_subjects
-- Expectations of a namespace about datasets of another one, which are judged.
SELECT id, definition FROM expectations
WHERE kind = 'dataset' AND stopped IS NULL AND starts_with(app, $1 || '.') AND starts_with(subject, $2 || '.')
ORDER BY id;
