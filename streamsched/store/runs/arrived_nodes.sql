-- Nodes of graphs that the ends of runs complete. See arrived_nodes.py.

-- name: arrive
-- Completed nodes of tasks that arrive; their children have not counted them. One that is completed stays. $5: the time.
-- Returns the tasks that graphs have; another one has not been deployed yet.
WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS w (app, task, job_id, job)
), known AS MATERIALIZED (
    SELECT w.app, w.task, g.generation FROM (SELECT DISTINCT app, task FROM wanted) AS w
    JOIN graphs g ON g.app = w.app AND g.tasks::json -> w.task -> 'arrives' IS NOT NULL
), arrived AS (
    SELECT DISTINCT ON (app, task, job_id) w.*, k.generation FROM wanted w JOIN known k USING (app, task)
    ORDER BY app, task, job_id, job
), completed AS (
    INSERT INTO graph_nodes (app, task, job_id, state, reported, groups, round, again, generation, job, reason, created_at,
        changed_at)
    SELECT app, task, job_id, 'COMPLETED', 'missing', '{}', 0, false, generation, job, '', $5::timestamptz, $5
    FROM arrived
    ON CONFLICT DO NOTHING
    RETURNING 1
), rung AS (
    SELECT pg_notify('graph', '') FROM completed LIMIT 1
)
SELECT app, task, (SELECT count(*) FROM rung) AS rung FROM known;
