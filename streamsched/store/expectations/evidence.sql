-- Commits of datasets and completed runs of schedules, as far as expectations are about them.

-- name: expects
-- Whether there is an expectation of a kind.
SELECT EXISTS (SELECT FROM expectations WHERE kind = $1 AND stopped IS NULL);

-- name: known
-- Those of these subjects that expectations are about, with the templates of their keys.
SELECT DISTINCT subject, coalesce(definition ->> 'partition', definition ->> 'key', '') AS template
FROM expectations WHERE kind = $1 AND subject = ANY ($2::text[]) AND stopped IS NULL;

-- name: hold
-- The positions of these partitions that equal the starts of their batches and are not locked; locked until the commit.
SELECT p.partition FROM intake_positions p JOIN unnest($2::integer[], $3::bigint[]) AS b (partition, start) USING (partition)
WHERE p.topic = $1 AND p.position = b.start
FOR UPDATE OF p SKIP LOCKED;

-- name: move
-- Their next positions.
UPDATE intake_positions p SET position = b.next
FROM unnest($2::integer[], $3::bigint[]) AS b (partition, next) WHERE p.topic = $1 AND p.partition = b.partition;

-- name: put
-- Evidence, each once. In order, the lock order.
INSERT INTO evidence (kind, subject, mark, at)
SELECT $1, subject, mark, min(at) FROM unnest($2::text[], $3::bytea[], $4::timestamptz[]) AS n (subject, mark, at)
GROUP BY subject, mark ORDER BY subject, mark
ON CONFLICT DO NOTHING;

-- name: put_keys
-- The first evidence of keys; what came before stays.
INSERT INTO evidence_keys (kind, subject, key, at)
SELECT $1, subject, key, min(at) FROM unnest($2::text[], $3::text[], $4::timestamptz[]) AS n (subject, key, at)
GROUP BY subject, key ORDER BY subject, key
ON CONFLICT DO NOTHING;

-- name: stir
-- Something came, up to $3, for subjects that are missed, or whose due time has passed and is being judged just now: who
-- locks such a row second sees what the first has stored.
WITH missed AS (
    SELECT id FROM expectations
    WHERE kind = $1 AND subject = ANY ($2::text[]) AND (open_misses > 0 OR due_at <= $3) ORDER BY id FOR UPDATE
), stirred AS (
    UPDATE expectations e SET stirred = true FROM missed m WHERE e.id = m.id RETURNING e.id
)
SELECT pg_notify('timers', '') FROM stirred LIMIT 1;

-- name: read_to
-- All of a kind up to this instant is stored. It never goes back.
INSERT INTO evidence_read AS known (kind, at) VALUES ($1, $2)
ON CONFLICT (kind) DO UPDATE SET at = greatest(known.at, excluded.at);

-- name: begin
-- Where the topic is read from, unless it is known.
INSERT INTO intake_positions (topic, partition, position)
SELECT $1, partition, position FROM unnest($2::integer[], $3::bigint[]) AS n (partition, position)
ON CONFLICT DO NOTHING;

-- name: end
-- The topic is not read any more.
DELETE FROM intake_positions WHERE topic = $1;

-- name: forget
-- Evidence that no due time ahead asks for, and of each subject the oldest beyond $2: a due time asks for what came after
-- the one before, and repeats of an event come within four days.
DELETE FROM evidence e USING (
    SELECT n.kind, n.subject, greatest(min(x.since) - interval '4 days', (
        SELECT o.at FROM evidence o WHERE o.kind = n.kind AND o.subject = n.subject ORDER BY o.at DESC OFFSET $2 LIMIT 1
    )) AS before
    FROM (SELECT DISTINCT kind, subject FROM evidence) AS n LEFT JOIN expectations x USING (kind, subject)
    GROUP BY n.kind, n.subject
) AS old
WHERE e.kind = old.kind AND e.subject = old.subject AND (old.before IS NULL OR e.at <= old.before)
    AND e.at < $1::timestamptz - interval '4 days';

-- name: forget_keys
-- Keys of subjects that are not expected, old ones, and of each subject the oldest beyond $2.
DELETE FROM evidence_keys k USING (
    SELECT n.kind, n.subject, greatest($1::timestamptz - interval '1200 days', (
        SELECT o.at FROM evidence_keys o WHERE o.kind = n.kind AND o.subject = n.subject
        ORDER BY o.at DESC OFFSET $2 LIMIT 1
    )) AS before, EXISTS (SELECT FROM expectations x WHERE x.kind = n.kind AND x.subject = n.subject) AS expected
    FROM (SELECT DISTINCT kind, subject FROM evidence_keys) AS n
) AS old
WHERE k.kind = old.kind AND k.subject = old.subject AND (NOT old.expected OR k.at <= old.before);

-- name: forget_misses
-- Old misses that will not come any more, and of each expectation the oldest beyond $2.
DELETE FROM expectation_misses m
WHERE NOT m.open AND (m.found_at < $1 OR m.due_at < (
    SELECT x.due_at FROM expectation_misses x WHERE x.expectation = m.expectation ORDER BY x.due_at DESC OFFSET $2 LIMIT 1
));

-- name: reader
-- Where a reader of the history stands, locked.
SELECT position FROM history_readers WHERE name = $1 FOR UPDATE;

-- name: begin_reader
-- Where it begins.
INSERT INTO history_readers VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: end_reader
-- It does not read any more.
DELETE FROM history_readers WHERE name = $1;

-- name: completed
-- Lines about completed runs of schedules after $1 up to $2, in order.
SELECT id, at, subject FROM work_decisions
WHERE id > $1 AND id <= $2 AND subject_kind = 'run' AND action = 'run.completed' ORDER BY id LIMIT $3;

-- name: runs
-- Those of these runs that a schedule started, with their arguments, which have those of its key.
SELECT r.id, j.schedule, r.arguments FROM runs r JOIN jobs j ON j.id = r.job
WHERE r.id = ANY ($1::text[]) AND j.schedule IS NOT NULL
UNION ALL
SELECT id, schedule, record -> 'arguments' FROM runs_history WHERE id = ANY ($1::text[]) AND schedule IS NOT NULL;

-- name: advance_reader
-- It has read up to this line.
UPDATE history_readers SET position = $2 WHERE name = $1;
