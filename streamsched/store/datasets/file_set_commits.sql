-- Commits of file sets.

-- name: after
-- A page, in order.
SELECT number, commit_id AS commit, manifest FROM file_set_commits WHERE dataset = $1 AND number > $2 ORDER BY number LIMIT $3;

-- name: find
-- The commit with an id.
SELECT number, commit_id AS commit, manifest FROM file_set_commits WHERE dataset = $1 AND commit_id = $2;

-- name: add
-- The next number. The row of the file set is locked until the commit is visible, so numbers appear in order. A commit
-- of a job locks the job's epoch first, and is refused by a higher one, also by one that was set while it waited. No
-- row: it is fenced, or the file set is at another location.
WITH epoch AS (
    INSERT INTO file_set_epochs AS e (dataset, job, attempt) SELECT $1, $5, $6 WHERE $5::text IS NOT NULL
    ON CONFLICT (dataset, job) DO UPDATE SET attempt = excluded.attempt WHERE e.attempt <= excluded.attempt
    RETURNING attempt
), head AS (
    INSERT INTO file_sets AS s (dataset, location, commits)
    SELECT $1, $2, 1 WHERE $5::text IS NULL OR EXISTS (SELECT FROM epoch)
    ON CONFLICT (dataset) DO UPDATE SET commits = s.commits + 1 WHERE s.location = excluded.location
    RETURNING commits
)
INSERT INTO file_set_commits (dataset, number, commit_id, manifest) SELECT $1, commits, $3, $4 FROM head
RETURNING number, commit_id AS commit, manifest;

-- name: fence
-- Raises the epoch of a job; no row: it is higher already.
INSERT INTO file_set_epochs AS e (dataset, job, attempt) VALUES ($1, $2, $3)
ON CONFLICT (dataset, job) DO UPDATE SET attempt = excluded.attempt WHERE e.attempt <= excluded.attempt
RETURNING attempt;

-- name: fence_of
-- The epoch of a job.
SELECT attempt FROM file_set_epochs WHERE dataset = $1 AND job = $2;

-- name: location
-- Of a file set.
SELECT location FROM file_sets WHERE dataset = $1;

-- name: forget
-- A file set with its commits.
DELETE FROM file_sets WHERE dataset = $1 RETURNING commits;
