-- Commits of file sets. See ports/datasets/commits.py.

-- name: after
-- A page, in order.
SELECT number, commit_id, manifest FROM file_set_commits WHERE dataset = $1 AND number > $2 ORDER BY number LIMIT $3;

-- name: find
-- The commit with an id.
SELECT number, commit_id, manifest FROM file_set_commits WHERE dataset = $1 AND commit_id = $2;

-- name: add
-- The next number. The row of the file set is locked until the commit is visible, so numbers appear in order. No row:
-- the file set is at another location.
WITH head AS (
    INSERT INTO file_sets AS s (dataset, location, commits) VALUES ($1, $2, 1)
    ON CONFLICT (dataset) DO UPDATE SET commits = s.commits + 1 WHERE s.location = excluded.location
    RETURNING commits
)
INSERT INTO file_set_commits (dataset, number, commit_id, manifest) SELECT $1, commits, $3, $4 FROM head
RETURNING number, commit_id, manifest;

-- name: location
-- Of a file set.
SELECT location FROM file_sets WHERE dataset = $1;

-- name: forget
-- A file set with its commits.
DELETE FROM file_sets WHERE dataset = $1 RETURNING commits;
