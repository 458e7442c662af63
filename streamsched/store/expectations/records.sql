-- Expectations as people read them.

-- name: page
-- $1 namespace, $2 app, each NULL for any; with $3 only those with an open miss; at most $5 of those after id $4.
SELECT e.id, e.app, e.definition, e.since, e.due_at, e.starts, e.opens_at, e.learning, e.recent, e.open_misses, e.stopped,
    e.created_at, e.changed_at,
    (SELECT v.at FROM evidence v WHERE v.kind = e.kind AND v.subject = e.subject ORDER BY v.at DESC LIMIT 1) AS seen_at,
    m.due_at AS missed_due_at, m.key AS missed_key, m.reason AS missed_reason, m.found_at AS missed_found_at,
    m.announced AS missed_announced, m.open AS missed_open, m.came_at AS missed_came_at
FROM (
    SELECT * FROM expectations
    WHERE ($1::text IS NULL OR starts_with(id, $1 || '.')) AND ($2::text IS NULL OR app = $2)
        AND (NOT $3 OR open_misses > 0) AND id > $4
    ORDER BY id LIMIT $5
) AS e
LEFT JOIN LATERAL (
    SELECT * FROM expectation_misses x WHERE x.expectation = e.id ORDER BY x.due_at DESC LIMIT 1
) AS m ON true
ORDER BY e.id;

-- name: about
-- The first $3 about a dataset or schedule.
SELECT id FROM expectations WHERE kind = $1 AND subject = $2 ORDER BY id LIMIT $3;

-- name: some
-- As page, of these.
SELECT e.id, e.app, e.definition, e.since, e.due_at, e.starts, e.opens_at, e.learning, e.recent, e.open_misses, e.stopped,
    e.created_at, e.changed_at,
    (SELECT v.at FROM evidence v WHERE v.kind = e.kind AND v.subject = e.subject ORDER BY v.at DESC LIMIT 1) AS seen_at,
    m.due_at AS missed_due_at, m.key AS missed_key, m.reason AS missed_reason, m.found_at AS missed_found_at,
    m.announced AS missed_announced, m.open AS missed_open, m.came_at AS missed_came_at
FROM expectations e
LEFT JOIN LATERAL (
    SELECT * FROM expectation_misses x WHERE x.expectation = e.id ORDER BY x.due_at DESC LIMIT 1
) AS m ON true
WHERE e.id = ANY ($1::text[])
ORDER BY e.id;

-- name: misses
-- The newest misses of one.
SELECT due_at, key, reason, found_at, announced, open, came_at FROM expectation_misses
WHERE expectation = $1 ORDER BY due_at DESC LIMIT $2;
