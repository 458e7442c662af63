-- Fences of runs that were given up.

-- name: want
-- What is known about later commits, and when the fence is to be written: of a run that may live ($4), or after attempts
-- ($5) of which one was lost.
UPDATE runs SET fence = $2, fence_at = $3
WHERE id = $1
    AND ($4 OR EXISTS (SELECT FROM runs AS earlier WHERE earlier.id = ANY ($5::text[]) AND earlier.state = 'LOST'));

-- name: due
-- Those to be fenced now, each for one caller until its next time, which depends on how often it was tried.
UPDATE runs AS r SET fence_tries = r.fence_tries + 1, fence_at = ($2::timestamptz[])[r.fence_tries + 1]
FROM (
    SELECT id FROM runs WHERE fence_at <= $1 ORDER BY fence_at LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED
) AS next
WHERE r.id = next.id
RETURNING r.id;

-- name: order
-- A run whose fence is to be written.
SELECT r.id, r.attempt, r.executable, r.arguments, r.job FROM runs r
WHERE r.id = $1 AND r.fence_tries > 0 AND r.state IN ('LOST', 'KILLED', 'FAILED', 'COMPLETED');

-- name: raise_epochs
-- The epoch of the job in datasets, also in those without a commit. Returns those whose commits are rows.
WITH raised AS (
    INSERT INTO file_set_epochs AS e (dataset, job, attempt)
    SELECT dataset, $2, $3 FROM unnest($1::text[]) AS given (dataset) ORDER BY dataset
    ON CONFLICT (dataset, job) DO UPDATE SET attempt = greatest(e.attempt, excluded.attempt)
    RETURNING e.dataset
)
SELECT dataset FROM raised JOIN file_sets USING (dataset);

-- name: written
-- What is known now; it is not tried again when all is fenced ($3).
UPDATE runs SET fence = $2, fence_at = CASE WHEN $3 THEN NULL ELSE fence_at END WHERE id = $1 RETURNING id;
