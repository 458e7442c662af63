-- Quotas with what is in use, and the locks under which counts change. See domain/quotas/quota.py.

-- name: list
-- Of namespace $1 (NULL: of all; then of at most $3, NULL: all, after $2), with what is in use: schedules; accumulations
-- that they may have open, `at_most` of those that correlate; runs that have not ended; events a second accepted by
-- processes that were heard of since $4; names of groups and pools; webhooks. $5: `at_most` where a schedule says none; $6: quotas that this release knows.
SELECT q.namespace, q.quota, q.most, q.reason, q.changed_at, CASE q.quota
    WHEN 'schedules' THEN (
        SELECT count(*) FROM schedules s JOIN apps a ON a.id = s.app
        WHERE a.namespace = q.namespace AND s.deleted_at IS NULL
    )
    WHEN 'accumulations' THEN (
        SELECT coalesce(sum(CASE WHEN c.per IS NULL THEN 1 ELSE coalesce((c.per ->> 'atMost')::bigint, $5) END), 0)
        FROM schedules s JOIN apps a ON a.id = s.app CROSS JOIN LATERAL (
            SELECT jsonb_path_query_first(s.definition, '$.trigger.** ? (@.type == "PER" && exists(@.trigger.type))') AS per
        ) AS c
        WHERE a.namespace = q.namespace AND s.deleted_at IS NULL
    )
    WHEN 'runs' THEN (
        SELECT count(*) FROM runs r
        WHERE split_part(r.program, '.', 1) = q.namespace AND r.state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
    )
    WHEN 'events_per_second' THEN (
        SELECT coalesce(sum(h.accepted), 0) FROM quota_shares h WHERE h.namespace = q.namespace AND h.at > $4
    )
    WHEN 'shared_names' THEN (SELECT count(*) FROM shared_names n WHERE n.namespace = q.namespace)
    WHEN 'webhooks' THEN (SELECT count(*) FROM webhooks w WHERE starts_with(w.id, q.namespace || '.'))
END::double precision AS used
FROM quotas q
WHERE q.quota = ANY($6::text[]) AND ($1::text IS NULL OR q.namespace = $1) AND q.namespace IN (
    SELECT DISTINCT namespace FROM quotas WHERE namespace > $2 OR $1 IS NOT NULL ORDER BY namespace LIMIT $3
)
ORDER BY q.namespace, q.quota;

-- name: lock_counts
-- The quotas that changes of schedules of namespace $1 are checked against. Their holder changes the counts.
SELECT quota, most FROM quotas WHERE namespace = $1 AND quota IN ('schedules', 'accumulations') ORDER BY quota FOR UPDATE;

-- name: limit
-- Quota $2 of a namespace; none where it is not set.
SELECT most FROM quotas WHERE namespace = $1 AND quota = $2;
