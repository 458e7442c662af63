-- Where the logs of runs are, after the data folder was moved.

-- name: move_logs
-- Runs whose log was at its place in the folder $1 have it at the same place in $2. Returns how many.
WITH moved AS (
    UPDATE runs SET log_path = $2 || '/logs/' || id || '.log' WHERE log_path = $1 || '/logs/' || id || '.log'
    RETURNING id
), archived AS (
    UPDATE runs_history SET record = jsonb_set(record, '{log_path}', to_jsonb($2 || '/logs/' || id || '.log'))
    WHERE record ->> 'log_path' = $1 || '/logs/' || id || '.log'
    RETURNING id
)
SELECT (SELECT count(*) FROM moved) + (SELECT count(*) FROM archived);
