-- Bookmarks of readers.

-- name: list
-- A page by name, without values, which may be large.
SELECT name, '' AS value, revision, changed_at FROM bookmarks WHERE name > $1 ORDER BY name LIMIT $2;

-- name: get
-- One of them.
SELECT name, value, revision, changed_at FROM bookmarks WHERE name = $1;

-- name: create
-- The first revision; no row: there is one already.
INSERT INTO bookmarks (name, value, revision, changed_at) VALUES ($1, $2, 1, $3) ON CONFLICT DO NOTHING
RETURNING name, value, revision, changed_at;

-- name: set
-- The next revision; no row: the revision is another one.
UPDATE bookmarks SET value = $2, revision = revision + 1, changed_at = $3 WHERE name = $1 AND revision = $4
RETURNING name, value, revision, changed_at;

-- name: delete
-- One of them, with what runs would set.
WITH pending AS (DELETE FROM bookmark_moves WHERE name = $1) DELETE FROM bookmarks WHERE name = $1;

-- name: lock_moves
-- What runs would set, locked, so that each is applied once.
SELECT run, value, revision FROM bookmark_moves WHERE name = $1 ORDER BY run FOR UPDATE;

-- name: ended
-- The runs that have ended, in the order of their ends.
SELECT id, state, ended_at FROM runs WHERE id = ANY ($1::text[]) AND ended_at IS NOT NULL
UNION ALL
SELECT id, state, (record ->> 'ended_at')::timestamptz FROM runs_history WHERE id = ANY ($1::text[])
ORDER BY ended_at, id;

-- name: known_run
-- Whether the run exists.
SELECT EXISTS (SELECT FROM runs WHERE id = $1) OR EXISTS (SELECT FROM runs_history WHERE id = $1);

-- name: move_later
-- Once for each run and bookmark.
INSERT INTO bookmark_moves (name, run, value, revision) VALUES ($1, $2, $3, $4)
ON CONFLICT (name, run) DO UPDATE SET value = excluded.value, revision = excluded.revision;

-- name: forget_moves
-- Those of runs that have ended.
DELETE FROM bookmark_moves WHERE name = $1 AND run = ANY ($2::text[]);

-- name: pending
-- Of one run.
SELECT value FROM bookmark_moves WHERE name = $1 AND run = $2;

-- name: cue
-- Counts a cue for each of these that exists. Locked in order, so that concurrent cues do not deadlock.
WITH known AS (SELECT name FROM bookmarks WHERE name = ANY ($1::text[]) ORDER BY name FOR NO KEY UPDATE)
UPDATE bookmarks SET cues = cues + 1 FROM known WHERE bookmarks.name = known.name
RETURNING bookmarks.name;

-- name: cues
-- Of one bookmark.
SELECT cues FROM bookmarks WHERE name = $1;
