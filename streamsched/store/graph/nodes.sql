-- Graphs and their nodes.

-- name: graph
-- The tasks of an app, as it deployed them last.
SELECT generation, tasks FROM graphs WHERE app = $1;

-- name: put
-- A new generation when the tasks differ.
INSERT INTO graphs AS g (app, generation, tasks, updated_at) VALUES ($1, 1, $2, $3)
ON CONFLICT (app) DO UPDATE SET
    generation = g.generation + (g.tasks <> excluded.tasks)::integer, tasks = excluded.tasks,
    updated_at = CASE WHEN g.tasks <> excluded.tasks THEN excluded.updated_at ELSE g.updated_at END
RETURNING generation;

-- name: lock
-- Every change of an app's nodes waits for this lock, except for arrivals, which only refer to the row.
SELECT generation FROM graphs WHERE app = $1 FOR NO KEY UPDATE;

-- name: nodes
-- Those of the given nodes that exist.
SELECT n.task, n.job_id, n.state, n.reported, n.groups, n.round, n.again, n.stuck, n.generation, n.job, n.reason, n.held
FROM unnest($2::text[], $3::text[]) AS w (task, job_id)
JOIN graph_nodes n ON n.app = $1 AND n.task = w.task AND n.job_id = w.job_id;

-- name: states
-- What is needed of a parent, without the rest of the row.
SELECT n.task, n.job_id, n.state, n.reported FROM unnest($2::text[], $3::text[]) AS w (task, job_id)
JOIN graph_nodes n ON n.app = $1 AND n.task = w.task AND n.job_id = w.job_id;

-- name: views
-- Nodes with the state of the last run of their job.
SELECT n.task, n.job_id, n.state, n.reported, n.groups, n.round, n.again, n.stuck, n.job, n.reason, n.created_at,
    n.changed_at, (SELECT r.state FROM runs r WHERE r.job = n.job ORDER BY r.attempt DESC LIMIT 1) AS run_state
FROM unnest($2::text[], $3::text[]) AS w (task, job_id)
JOIN graph_nodes n ON n.app = $1 AND n.task = w.task AND n.job_id = w.job_id;

-- name: page
-- One page by task and job id.
SELECT n.task, n.job_id, n.state, n.reported, n.groups, n.round, n.again, n.stuck, n.job, n.reason, n.created_at,
    n.changed_at, (SELECT r.state FROM runs r WHERE r.job = n.job ORDER BY r.attempt DESC LIMIT 1) AS run_state
FROM graph_nodes n
WHERE app = $1 AND ($2::text IS NULL OR task = $2) AND ($3::text IS NULL OR state = $3) AND (task, job_id) > ($4, $5)
ORDER BY task, job_id
LIMIT $6;

-- name: counts
-- How many nodes of each task are in each state.
SELECT task, state, count(*) AS nodes FROM graph_nodes WHERE app = $1 GROUP BY task, state;

-- name: write
-- Changed nodes in place of their former row, and new ones.
WITH w AS (
    SELECT * FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::integer[], $9::boolean[],
        $10::text[], $11::text[], $12::bigint[], $13::boolean[], $14::text[])
        AS w (task, job_id, state, reported, groups, round, again, job, reason, generation, held, stuck)
), changed AS (
    UPDATE graph_nodes n SET state = w.state, reported = w.reported, groups = w.groups::integer[], round = w.round,
        again = w.again, generation = w.generation, job = w.job, reason = w.reason, changed_at = $2, held = w.held,
        stuck = string_to_array(w.stuck, '/')
    FROM w WHERE n.app = $1 AND n.task = w.task AND n.job_id = w.job_id
    RETURNING n.task, n.job_id
)
INSERT INTO graph_nodes AS n (app, task, job_id, state, reported, groups, round, again, generation, job, reason, created_at,
    changed_at, held, stuck)
SELECT $1, w.task, w.job_id, w.state, w.reported, w.groups::integer[], w.round, w.again, w.generation, w.job, w.reason, $2, $2,
    w.held, string_to_array(w.stuck, '/')
FROM w LEFT JOIN changed c USING (task, job_id) WHERE c.task IS NULL
ON CONFLICT (app, task, job_id) DO UPDATE SET state = excluded.state, reported = excluded.reported, groups = excluded.groups,
    round = excluded.round, again = excluded.again, generation = excluded.generation, job = excluded.job,
    reason = excluded.reason, changed_at = excluded.changed_at, held = excluded.held, stuck = excluded.stuck;

-- name: schedules
-- The schedules of tasks as they are now. A change after this snapshot makes their new jobs obsolete.
SELECT id, program, generation, enabled FROM schedules WHERE id = ANY($1::text[]) AND deleted_at IS NULL;

-- name: ends
-- Jobs of nodes that may have ended, oldest first, with the state of the job and of its last run. `app` is NULL when the
-- job is not the current one of a queued node.
SELECT e.id, e.job, n.app, n.task, n.job_id, j.state, j.reason, r.state AS run_state, r.reason AS run_reason, r.exit_code,
    s.id IS NOT NULL AND s.deleted_at IS NULL AS stands, n.stuck
FROM (SELECT id, job FROM node_ends ORDER BY id LIMIT $1) AS e
LEFT JOIN graph_nodes n ON n.job = e.job AND n.state = 'QUEUED'
LEFT JOIN jobs j ON j.id = e.job
LEFT JOIN schedules s ON s.id = j.schedule
LEFT JOIN LATERAL (
    SELECT state, reason, exit_code FROM runs WHERE job = e.job ORDER BY attempt DESC LIMIT 1
) AS r ON true
ORDER BY e.id;

-- name: exit_codes
-- Of the last run of each of these jobs.
SELECT w.job, (SELECT r.exit_code FROM runs r WHERE r.job = w.job ORDER BY r.attempt DESC LIMIT 1) AS exit_code
FROM unnest($1::text[]) AS w (job);

-- name: forget
-- These ends are counted, or are none.
DELETE FROM node_ends WHERE id = ANY($1::bigint[]);

-- name: unreported
-- Nodes whose children have not counted their state, longest waiting first, and those that are stuck. Those that were
-- postponed come later.
(SELECT app, task, job_id, stuck FROM graph_nodes WHERE unreported AND report_at <= $2
    ORDER BY report_at, changed_at LIMIT $1)
UNION ALL
(SELECT app, task, job_id, stuck FROM graph_nodes WHERE stuck <> '{}' AND NOT unreported AND report_at <= $2
    ORDER BY report_at LIMIT $1);

-- name: postpone
-- Nodes that cannot be reported now, with the reason.
UPDATE graph_nodes n SET report_at = $5, reason = w.reason
FROM unnest($2::text[], $3::text[], $4::text[]) AS w (task, job_id, reason)
WHERE n.app = $1 AND n.task = w.task AND n.job_id = w.job_id AND (n.unreported OR n.stuck <> '{}');

-- name: outdated
-- A few of each graph, so that one which cannot be counted does not hold up the others.
SELECT n.app, n.task, n.job_id, '{}'::text[] AS stuck FROM graphs g CROSS JOIN LATERAL (
    SELECT app, task, job_id FROM graph_nodes WHERE app = g.app AND generation < g.generation
    ORDER BY generation LIMIT 100
) AS n
LIMIT $1;

-- name: held
-- Nodes that wait for their schedule, of the schedules that are enabled now. Reads one index entry for each task that has
-- such nodes.
WITH RECURSIVE holding AS (
    (SELECT app, task FROM graph_nodes WHERE held AND state = 'WAITING' ORDER BY app, task LIMIT 1)
    UNION ALL
    SELECT n.app, n.task FROM holding h CROSS JOIN LATERAL (
        SELECT app, task FROM graph_nodes WHERE held AND state = 'WAITING' AND (app, task) > (h.app, h.task)
        ORDER BY app, task LIMIT 1
    ) AS n
)
SELECT n.app, n.task, n.job_id, '{}'::text[] AS stuck FROM holding h
JOIN schedules s ON s.id = h.app || '.' || h.task AND s.enabled AND s.deleted_at IS NULL
CROSS JOIN LATERAL (
    SELECT app, task, job_id FROM graph_nodes WHERE held AND state = 'WAITING' AND app = h.app AND task = h.task
    ORDER BY job_id LIMIT $1
) AS n
LIMIT $1;

-- name: old
-- Nodes that ended before $1, oldest first, after ($2, $3, $4, $5).
SELECT app, task, job_id, changed_at FROM graph_nodes
WHERE state NOT IN ('WAITING', 'QUEUED') AND NOT unreported AND stuck = '{}' AND changed_at < $1
    AND (changed_at, app, task, job_id) > ($2::timestamptz, $3::text, $4::text, $5::text)
ORDER BY changed_at, app, task, job_id
LIMIT $6;

-- name: delete
-- Those of the given nodes that have ended and are as old.
WITH gone AS (
    DELETE FROM graph_nodes n USING unnest($2::text[], $3::text[]) AS w (task, job_id)
    WHERE n.app = $1 AND n.task = w.task AND n.job_id = w.job_id AND n.state NOT IN ('WAITING', 'QUEUED')
        AND NOT n.unreported AND n.stuck = '{}' AND n.changed_at < $4
    RETURNING 1
)
SELECT count(*) FROM gone;

-- name: ring
-- Notifies the loops that move nodes, at commit.
SELECT pg_notify('graph', '');
