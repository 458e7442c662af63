-- name: find
-- Runs whose ids are names of folders; of an ended one, until history forgets it.
SELECT id, program, ended_at IS NULL AS active FROM runs WHERE id = ANY ($1::text[])
UNION ALL
SELECT DISTINCT id, program, false FROM runs_history WHERE id = ANY ($1::text[]);

-- name: find_long
-- Runs whose ids are too long for the name of a folder, until they are archived: no index, they are rare.
SELECT id, program, ended_at IS NULL AS active FROM runs WHERE length(id) > $1;

-- name: add_refused
-- What was refused of one spool, by one launcher's host; old ones go.
WITH gone AS (DELETE FROM refused_spool_lines WHERE at < $5::timestamptz - interval '30 days' AND (host, run) <> ($1, $2))
INSERT INTO refused_spool_lines AS known (host, run, lines, reason, at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (host, run) DO UPDATE SET lines = known.lines + excluded.lines, reason = excluded.reason, at = excluded.at;

-- name: refused
-- The last of the spools of which lines were refused.
SELECT host, run, lines, reason, at FROM refused_spool_lines ORDER BY at DESC LIMIT $1;
