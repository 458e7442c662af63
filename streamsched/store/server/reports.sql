-- How shards are, and what waits.

-- name: upsert_report
-- One row for each shard; a report of an older epoch changes nothing. What was deleted unread stays until there is more.
INSERT INTO shard_reports AS known (shard, worker, epoch, report, reported_at)
SELECT shard, $1, epoch, report, clock_timestamp()
FROM unnest($2::integer[], $3::bigint[], $4::jsonb[]) AS given (shard, epoch, report)
ORDER BY shard
ON CONFLICT (shard) DO UPDATE SET
    worker = excluded.worker, epoch = excluded.epoch, reported_at = excluded.reported_at,
    report = jsonb_strip_nulls(jsonb_build_object('deleted', known.report -> 'deleted')) || excluded.report
WHERE known.epoch <= excluded.epoch;

-- name: deletions
-- What shards found deleted from the log unread between $1 and $2, the newest first.
SELECT (d ->> 'at')::timestamptz AS at, d ->> 'topic' AS topic, (d ->> 'partition')::integer AS partition,
    (d ->> 'first')::bigint AS first, (d ->> 'next')::bigint AS next
FROM shard_reports, jsonb_array_elements(report -> 'deleted') AS d
WHERE (d ->> 'at')::timestamptz BETWEEN $1 AND $2
ORDER BY 1 DESC, 2, 3 LIMIT 100;

-- name: reports
-- The last report of each shard, and its age.
SELECT shard, worker, epoch, report, extract(epoch FROM clock_timestamp() - reported_at)::float8 AS age_s
FROM shard_reports ORDER BY shard;

-- name: leases
-- All leases.
SELECT name, owner, epoch, extract(epoch FROM expires_at - now())::float8 AS expires_in, wanted_by, format
FROM leases ORDER BY name;

-- name: queues
-- What waits, and since when the first of it does; served by the partial indexes of what has not ended, and of
-- what is due: against now(), for clock_timestamp() may change from row to row and is compared with each.
SELECT 'outbox' AS name, count(*)::int AS waiting, min(created_at) AS since, now() AS now FROM outbox
UNION ALL
SELECT 'ticks', count(*)::int, min(due_at), now() FROM timers WHERE due_at < now()
UNION ALL
SELECT 'wake-ups', count(*)::int, min(due_at), now() FROM wakes WHERE due_at < now()
UNION ALL
SELECT 'jobs that wait', count(*)::int, min(created_at), now() FROM jobs WHERE state = 'PENDING_CONSTRAINT'
UNION ALL
SELECT 'jobs to launch', count(*)::int, min(created_at), now() FROM jobs WHERE state = 'PENDING_LAUNCH'
UNION ALL
SELECT 'runs to start', count(*)::int, min(created_at), now() FROM runs WHERE state = 'PENDING'
UNION ALL
SELECT 'runs active', count(*)::int, min(started_at), now() FROM runs
WHERE state IN ('STARTING', 'RUNNING', 'SUSPENDED');
