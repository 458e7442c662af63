-- What pages read to show how things depend on each other.

-- name: catalog_version
-- How many schedules there are, and when the last one was changed.
SELECT count(*) AS schedules, max(updated_at) AS changed_at FROM schedules WHERE deleted_at IS NULL;

-- name: links
-- The schedules of the namespaces $2 (NULL: all) with what their triggers name: each such object has `entity`.
SELECT s.id AS schedule, s.program, ARRAY(
    SELECT DISTINCT lower(e ->> 'entity') || ' ' || concat_ws('.', e ->> 'namespace', e ->> 'application',
        coalesce(e ->> 'dataset', e ->> 'stream', e ->> 'event', e ->> 'program'))
    FROM jsonb_path_query(s.definition -> 'trigger', 'strict $.**?(exists(@.entity))') AS e
    ORDER BY 1
) AS listens
FROM schedules s
WHERE s.deleted_at IS NULL AND ($2::text[] IS NULL OR split_part(s.id, '.', 1) = ANY ($2))
ORDER BY s.id LIMIT $1;

-- name: standings
-- The state of these schedules, and how many of their jobs wait.
SELECT s.id AS schedule, CASE WHEN h.schedule IS NOT NULL THEN 'error' WHEN s.enabled THEN 'enabled'
    WHEN z.schedule IS NULL THEN 'disabled' ELSE 'paused' END AS state, (
    SELECT count(*)::int FROM jobs j
    WHERE j.schedule = s.id AND j.state IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH')
) AS waiting
FROM schedules s
LEFT JOIN pauses z ON z.schedule = s.id AND z.generation = s.generation
LEFT JOIN schedule_halts h ON h.schedule = s.id
WHERE s.id = ANY ($1::text[]) AND s.deleted_at IS NULL;

-- name: graphs
-- The first apps by name that have a graph, of the namespaces $2 (NULL: all), with the text $3 in their names.
SELECT app FROM graphs
WHERE tasks <> '{}' AND ($2::text[] IS NULL OR split_part(app, '.', 1) = ANY ($2)) AND strpos(lower(app), lower($3)) > 0
ORDER BY app LIMIT $1;

-- name: has_graph
-- Whether an app has a graph.
SELECT tasks <> '{}' FROM graphs WHERE app = $1;

-- name: last_runs
-- The state of the newest run of each of these programs, unless it is in the history already.
SELECT p.id AS program, (SELECT state FROM runs WHERE program = p.id ORDER BY created_at DESC LIMIT 1) AS state
FROM unnest($1::text[]) AS p (id);
