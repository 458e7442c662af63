-- How runs that OpenLineage tells of have ended.

-- name: end
-- The outcome that was said first. Also deletes up to 100 that were said before $5, so the table stays as long as its age.
WITH old AS (
    DELETE FROM lineage_ends WHERE (program, run) IN (
        SELECT program, run FROM lineage_ends WHERE at < $5 ORDER BY at LIMIT 100 FOR UPDATE SKIP LOCKED
    ) AND (program, run) <> ($1, $2)
)
INSERT INTO lineage_ends AS known (program, run, outcome, at) VALUES ($1, $2, $3, $4)
ON CONFLICT (program, run) DO UPDATE SET outcome = known.outcome
RETURNING outcome;
