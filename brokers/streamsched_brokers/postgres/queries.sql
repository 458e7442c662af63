-- name: version
-- The version of schema.sql that created the schema; NULL when there is none.
SELECT obj_description(to_regnamespace('streamsched_log'), 'pg_namespace')

-- name: lock_schema
-- One process at a time creates the schema or topics; released with the transaction.
SELECT pg_advisory_xact_lock(hashtext('streamsched_log'))

-- name: topics
-- All topics: there are few; read when an unknown name is used.
SELECT topic_id, name, partitions, cleanup, retention FROM streamsched_log.topic

-- name: create_topic
-- Creates a topic with its empty partitions; an existing one keeps its partitions and cleanup, its times are updated.
WITH made AS (
    INSERT INTO streamsched_log.topic AS t (name, partitions, cleanup, retention, tombstones) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (name) DO UPDATE SET retention = excluded.retention, tombstones = excluded.tombstones
        WHERE t.cleanup = excluded.cleanup
            AND (t.retention, t.tombstones) IS DISTINCT FROM (excluded.retention, excluded.tombstones)
    RETURNING t.topic_id, t.partitions
)
INSERT INTO streamsched_log.partition (topic_id, partition)
SELECT topic_id, generate_series(0, partitions - 1) FROM made
ON CONFLICT DO NOTHING

-- name: ends
-- The ends of the given partitions, in the same order.
SELECT p."end"
FROM unnest($1::integer[], $2::integer[]) WITH ORDINALITY AS w (topic_id, partition, nth)
JOIN streamsched_log.partition p USING (topic_id, partition)
ORDER BY w.nth

-- name: read
-- The next batches of the partitions ($1, $2) from their positions ($3): a batch is returned while the batches before it
-- have fewer than $4 records and $5 bytes. Batches are ordered by the number of records before them in their own
-- partition, so that a backlog in one partition delays no other. Dense offsets bound each partition's scan; after
-- compaction they do not, hence the bound by the eighth batch.
SELECT nth, first_offset, bytes, offsets, time_ms, times, keys, values
FROM (
    SELECT b.*,
           sum(b.count) OVER in_turns - b.count AS records_before,
           sum(b.bytes) OVER in_turns - b.bytes AS bytes_before
    FROM (
        SELECT w.nth, s.*, sum(s.count) OVER (PARTITION BY w.nth ORDER BY s.last_offset ROWS UNBOUNDED PRECEDING) - s.count AS depth
        FROM unnest($1::integer[], $2::integer[], $3::bigint[]) WITH ORDINALITY AS w (topic_id, partition, position, nth)
        CROSS JOIN LATERAL (
            SELECT coalesce((
                SELECT f.last_offset FROM streamsched_log.batch f
                WHERE f.topic_id = w.topic_id AND f.partition = w.partition AND f.last_offset >= w.position
                ORDER BY f.last_offset OFFSET 7 LIMIT 1
            ), 9223372036854775807) AS eighth
        ) e
        CROSS JOIN LATERAL (
            SELECT r.first_offset, r.last_offset, r.count, r.bytes, r.offsets, r.time_ms, r.times, r.keys, r.values
            FROM streamsched_log.batch r
            WHERE r.topic_id = w.topic_id AND r.partition = w.partition AND r.last_offset >= w.position
              AND r.last_offset <= greatest(w.position + $4::integer, e.eighth)
            ORDER BY r.last_offset LIMIT $4::integer
        ) s
    ) b
    WINDOW in_turns AS (ORDER BY b.depth, b.nth ROWS UNBOUNDED PRECEDING)
) c
WHERE records_before < $4::integer AND bytes_before < $5::bigint
ORDER BY nth, last_offset

-- name: append
-- An append in one transaction and one round trip.
SELECT streamsched_log.append_v1($1, $2, $3, $4, $5, $6)

-- name: commit
-- A fenced append; false when the writer is not the newest of its name.
SELECT streamsched_log.commit_v1($1, $2, $3, $4, $5, $6, $7, $8)

-- name: fence
-- A new epoch for the name: waits for the former owner's commit in progress; its later ones are refused.
INSERT INTO streamsched_log.writer AS w (name, epoch) VALUES ($1, 1)
ON CONFLICT (name) DO UPDATE SET epoch = w.epoch + 1
RETURNING epoch

-- name: compactable
-- Partitions of compacted topics with enough new records since the last pass; see compact_v1.
SELECT p.topic_id, p.partition, t.tombstones
FROM streamsched_log.topic t
JOIN streamsched_log.partition p USING (topic_id)
LEFT JOIN streamsched_log.compaction c USING (topic_id, partition)
WHERE t.cleanup = 'compact'
  AND p."end" - coalesce(c.cleaned_to, 0) >= greatest($1::bigint, coalesce(c.kept, 0), 1)

-- name: compact
-- One pass over one partition, one transaction.
SELECT streamsched_log.compact_v1($1, $2, $3, $4, $5, $6, $7)

-- name: expirable
-- Partitions of topics with a retention.
SELECT p.topic_id, p.partition, t.name
FROM streamsched_log.topic t JOIN streamsched_log.partition p USING (topic_id)
WHERE t.retention IS NOT NULL AND p."end" > 0

-- name: expire
-- Deletes batches older than the topic's retention from the beginning of a partition, at most a thousand at once, none that
-- has a record at or after $4, which its reader has not read, and never the last one, so that a reader can reach the end.
-- Of this clock and the caller's ($3) the earlier counts. Returns the number deleted.
WITH oldest AS MATERIALIZED (
    SELECT b.last_offset, b.time_ms FROM streamsched_log.batch b
    WHERE b.topic_id = $1 AND b.partition = $2
    ORDER BY b.last_offset LIMIT 1000
), expired AS (
    SELECT max(o.last_offset) AS upto
    FROM oldest o, streamsched_log.topic t, streamsched_log.partition p
    WHERE t.topic_id = $1 AND p.topic_id = $1 AND p.partition = $2
      AND o.time_ms <= least(extract(epoch FROM clock_timestamp()) * 1000, $3::bigint) - extract(epoch FROM t.retention) * 1000
      AND o.last_offset < p."end" - 1 AND o.last_offset < $4::bigint
), gone AS (
    DELETE FROM streamsched_log.batch b USING expired e
    WHERE b.topic_id = $1 AND b.partition = $2 AND b.last_offset <= e.upto
    RETURNING 1
)
SELECT count(*) FROM gone
