-- Expectations that are due, and those for whose misses something came. Locks: programs, then expectations, by id.

-- name: read_to
-- Up to which instant all evidence of each kind is stored.
SELECT kind, at FROM evidence_read;

-- name: due
-- Due expectations of a kind, due longest first, without those in $4, which this instance could not judge.
SELECT id, definition ->> 'program' AS program, app FROM expectations
WHERE kind = $1 AND due_at <= $2 AND NOT id = ANY ($4::text[])
ORDER BY due_at LIMIT $3;

-- name: stirred
-- Those for whose misses something came, without those in $2.
SELECT id, definition ->> 'program' AS program, app FROM expectations WHERE stirred AND NOT id = ANY ($2::text[]) ORDER BY id LIMIT $1;

-- name: next_due
-- When the next one of a kind is due.
SELECT due_at FROM expectations WHERE kind = $1 AND due_at IS NOT NULL ORDER BY due_at LIMIT 1;

-- name: lock
-- The holder of the lock judges it; a locked one is skipped.
SELECT id, app, definition, since, due_at, starts, opens_at, learning, recent, open_misses, stopped
FROM expectations WHERE id = ANY ($1::text[]) ORDER BY id FOR UPDATE SKIP LOCKED;

-- name: open_misses
-- Misses of these whose subject may still come, in the order of their due times.
SELECT expectation, due_at, starts, key, announced FROM expectation_misses WHERE expectation = ANY ($1::text[]) AND open
ORDER BY expectation, due_at;

-- name: first_evidence
-- When the first evidence of each came: of a key at all, without one after an instant; of the others NULL.
SELECT CASE WHEN n.key = ''
    THEN (SELECT e.at FROM evidence e WHERE e.kind = n.kind AND e.subject = n.subject AND e.at > n.after ORDER BY e.at LIMIT 1)
    ELSE (SELECT k.at FROM evidence_keys k WHERE k.kind = n.kind AND k.subject = n.subject AND k.key = n.key)
    END AS at
FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[]) WITH ORDINALITY AS n (kind, subject, key, after, place)
ORDER BY n.place;

-- name: schedules
-- Why a schedule may not have run: what it is now, and its pause.
SELECT s.id, s.deleted_at, s.enabled, p.note, p.schedule IS NOT NULL AS paused
FROM schedules s LEFT JOIN pauses p ON p.schedule = s.id AND p.generation = s.generation
WHERE s.id = ANY ($1::text[]);

-- name: seen
-- When each of these subjects came last, up to an instant.
SELECT (
    SELECT e.at FROM evidence e WHERE e.kind = n.kind AND e.subject = n.subject AND e.at <= n.upto ORDER BY e.at DESC LIMIT 1
) AS at
FROM unnest($1::text[], $2::text[], $3::timestamptz[]) WITH ORDINALITY AS n (kind, subject, upto, place)
ORDER BY n.place;

-- name: came
-- What was missing has come.
UPDATE expectation_misses m SET open = false, came_at = n.came_at
FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[]) AS n (expectation, due_at, came_at)
WHERE m.expectation = n.expectation AND m.due_at = n.due_at;

-- name: close
-- Due times of which any commit would have done, and after which another one has passed: it will not come any more. And
-- the oldest ones beyond $2 of an expectation.
UPDATE expectation_misses m SET open = false
WHERE m.expectation = ANY ($1::text[]) AND m.open AND (m.key = '' AND m.due_at < (
    SELECT max(x.due_at) FROM expectation_misses x WHERE x.expectation = m.expectation AND x.open
) OR m.due_at < (
    SELECT x.due_at FROM expectation_misses x WHERE x.expectation = m.expectation AND x.open
    ORDER BY x.due_at DESC OFFSET $2 LIMIT 1
));

-- name: close_met
-- Without a key a due time that was kept ends the search for what was missing before.
UPDATE expectation_misses SET open = false WHERE expectation = ANY ($1::text[]) AND open AND key = '';

-- name: miss
-- Stores misses, each once.
INSERT INTO expectation_misses (expectation, due_at, starts, key, reason, found_at, announced, open)
SELECT expectation, due_at, starts, key, reason, $7, announced, true
FROM unnest($1::text[], $2::timestamptz[], $3::timestamp[], $4::text[], $5::text[], $6::boolean[])
    AS n (expectation, due_at, starts, key, reason, announced)
ON CONFLICT DO NOTHING;

-- name: advance
-- The next due times, with what is open. Of a new miss what is missing may be there already.
UPDATE expectations e SET since = n.since, due_at = n.due_at, starts = n.starts, opens_at = n.opens_at,
    learning = n.learning, recent = n.recent::bigint[], stirred = n.stirred,
    open_misses = (SELECT count(*) FROM expectation_misses m WHERE m.expectation = e.id AND m.open)
FROM unnest(
    $1::text[], $2::timestamptz[], $3::timestamptz[], $4::timestamp[], $5::timestamptz[], $6::boolean[], $7::text[],
    $8::boolean[]
) AS n (id, since, due_at, starts, opens_at, learning, recent, stirred)
WHERE e.id = n.id;

-- name: failed
-- It cannot be judged; written to its history.
INSERT INTO decisions (at, subject_kind, subject, action, reason) VALUES ($1, 'expectation', $2, 'expectation.failed', $3);
