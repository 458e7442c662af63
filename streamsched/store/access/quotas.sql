-- Quotas of namespaces.

-- name: limits
-- Those of all namespaces, of the kinds $1: a newer release may know more.
SELECT namespace, quota, most FROM quotas WHERE quota = ANY($1::text[]);

-- name: backlogs
-- By namespace since when its first record waits, by reports that are not older than those of a live worker can be.
SELECT w.key AS namespace, to_timestamp(min(w.value::bigint) / 1000.0) AS since
FROM shard_reports, jsonb_each_text(report -> 'waiting_since') AS w
WHERE reported_at > clock_timestamp() - interval '15 seconds'
GROUP BY 1 ORDER BY 2, 1;

-- name: lock
-- One quota, locked.
SELECT most, reason FROM quotas WHERE namespace = $1 AND quota = $2 FOR UPDATE;

-- name: set
-- Stores or replaces.
INSERT INTO quotas (namespace, quota, most, reason, changed_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (namespace, quota) DO UPDATE
SET most = excluded.most, reason = excluded.reason, changed_at = excluded.changed_at;

-- name: unset
-- One.
DELETE FROM quotas WHERE namespace = $1 AND quota = $2;

-- name: forget_events
-- What processes know of a namespace's events.
WITH shares AS (DELETE FROM quota_shares WHERE namespace = $1) DELETE FROM quota_levels WHERE namespace = $1;

-- name: ensure_levels
-- A level for each namespace; sorted, so that concurrent creations do not deadlock. Full: $2.
INSERT INTO quota_levels (namespace, tokens, at)
SELECT namespace, tokens, $3 FROM unnest($1::text[], $2::double precision[]) AS n (namespace, tokens) ORDER BY namespace
ON CONFLICT DO NOTHING;

-- name: lock_levels
-- The levels of these namespaces. Their holder changes levels and shares.
SELECT namespace, tokens, at FROM quota_levels WHERE namespace = ANY($1::text[]) ORDER BY namespace FOR UPDATE;

-- name: shares
-- What processes hold of these namespaces that were heard of since $2.
SELECT namespace, process, tokens, asked FROM quota_shares WHERE namespace = ANY($1::text[]) AND at > $2;

-- name: forget_shares
-- Of processes that were not heard of since $2.
DELETE FROM quota_shares WHERE namespace = ANY($1::text[]) AND at <= $2;

-- name: put_levels
-- After leases: namespaces, tokens, times.
UPDATE quota_levels l SET tokens = n.tokens, at = n.at
FROM unnest($1::text[], $2::double precision[], $3::timestamptz[]) AS n (namespace, tokens, at)
WHERE l.namespace = n.namespace;

-- name: put_shares
-- What process $1 holds now: namespaces, tokens, events a second asked for and accepted.
INSERT INTO quota_shares (namespace, process, tokens, asked, accepted, at)
SELECT namespace, $1, tokens, asked, accepted, $6
FROM unnest($2::text[], $3::double precision[], $4::double precision[], $5::double precision[])
    AS n (namespace, tokens, asked, accepted)
ON CONFLICT (namespace, process) DO UPDATE
SET tokens = excluded.tokens, asked = excluded.asked, accepted = excluded.accepted, at = excluded.at;
