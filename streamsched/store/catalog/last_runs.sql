-- The last runs of schedules whose triggers count from them (domain.ticks.since_last_run).

-- name: last_runs
-- For each schedule and leaf: whether a job waits or a run has not ended; otherwise the latest end after the given instant;
-- and the latest job of the trigger. A job without a run ended when it did. What has ended may be in the history.
SELECT given.schedule, given.leaf, busy.active, CASE WHEN NOT busy.active THEN (
        SELECT max(ended.at) FROM (
            SELECT greatest(j.ended_at, (SELECT max(r.ended_at) FROM runs r WHERE r.job = j.id)) AS at
            FROM jobs j WHERE j.schedule = given.schedule
            UNION ALL
            SELECT h.done_at FROM jobs_history h WHERE h.schedule = given.schedule AND h.done_at > given.since
        ) AS ended WHERE ended.at > given.since
    ) END AS ended_at, coalesce(latest.generation, 0) AS generation, coalesce(latest.sequence, 0) AS sequence
FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS given (schedule, leaf, since)
CROSS JOIN LATERAL (
    SELECT EXISTS (
            SELECT FROM jobs j
            WHERE j.schedule = given.schedule AND j.state IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH')
        ) OR EXISTS (
            SELECT FROM jobs j JOIN runs r ON r.job = j.id
            WHERE j.schedule = given.schedule AND r.state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
        ) AS active
) AS busy
LEFT JOIN LATERAL (
    SELECT generation, sequence FROM (
        SELECT generation, sequence FROM jobs WHERE schedule = given.schedule AND NOT submitted
        UNION ALL
        SELECT generation, sequence FROM jobs_spent WHERE schedule = given.schedule
    ) AS known ORDER BY generation DESC, sequence DESC LIMIT 1
) AS latest ON true;
