-- The schema of the log, created by the driver (`connection.prepare`), outside the product's migrations: the log may be
-- in another database than the catalog. Statements are idempotent. Function names have a version, so that processes of
-- the previous release keep working beside those of this one.

CREATE SCHEMA IF NOT EXISTS streamsched_log;

-- Topics are never dropped, so that drivers may cache them.
CREATE TABLE IF NOT EXISTS streamsched_log.topic (
    topic_id   integer  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text     NOT NULL UNIQUE,
    partitions integer  NOT NULL CHECK (partitions > 0),
    cleanup    text     NOT NULL CHECK (cleanup IN ('delete', 'compact')),
    retention  interval,
    -- A compacted topic deletes by key, never by age.
    CHECK (cleanup = 'delete' OR retention IS NULL)
);
-- How long a tombstone of a compacted topic is kept after the pass that removed the records it covers.
ALTER TABLE streamsched_log.topic ADD COLUMN IF NOT EXISTS tombstones interval NOT NULL DEFAULT '1 day';

-- The end of each partition. An append holds this row's lock until its commit, so offsets become visible in order.
-- Rows are rewritten by every append, hence the free space in each page for updates in place.
CREATE TABLE IF NOT EXISTS streamsched_log.partition (
    topic_id  integer NOT NULL REFERENCES streamsched_log.topic,
    partition integer NOT NULL,
    "end"     bigint  NOT NULL DEFAULT 0 CHECK ("end" >= 0),
    PRIMARY KEY (topic_id, partition)
) WITH (fillfactor = 10);

-- The state of compaction. Separate from `partition`, so that a long pass does not block appends.
CREATE TABLE IF NOT EXISTS streamsched_log.compaction (
    topic_id   integer NOT NULL,
    partition  integer NOT NULL,
    -- Records before this offset have been compacted; `kept` of them remain.
    cleaned_to bigint  NOT NULL DEFAULT 0,
    kept       bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (topic_id, partition),
    FOREIGN KEY (topic_id, partition) REFERENCES streamsched_log.partition
);

-- Records of one partition, one row per append (a large append has several). A reader needs the first batch that ends
-- at or after its position, hence the primary key.
CREATE TABLE IF NOT EXISTS streamsched_log.batch (
    topic_id     integer NOT NULL,
    partition    integer NOT NULL,
    first_offset bigint  NOT NULL,
    last_offset  bigint  NOT NULL,
    count        integer NOT NULL CHECK (count > 0),
    bytes        integer NOT NULL,
    -- Milliseconds since the epoch: the time of all records, or of the newest when `times` has one for each.
    time_ms      bigint  NOT NULL,
    -- When compaction first removed everything the records of this batch supersede; a tombstone's grace starts then.
    clean_ms     bigint,
    -- NULL when they are consecutive from `first_offset`: only compaction leaves gaps.
    offsets      bigint[],
    times        bigint[],
    keys         bytea[] NOT NULL,
    values       bytea[] NOT NULL,
    PRIMARY KEY (topic_id, partition, last_offset),
    CHECK (last_offset - first_offset + 1 >= count)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);

-- Out of line without compression: pglz would use more CPU than everything else together.
ALTER TABLE streamsched_log.batch
    ALTER COLUMN keys SET STORAGE EXTERNAL, ALTER COLUMN values SET STORAGE EXTERNAL,
    ALTER COLUMN offsets SET STORAGE EXTERNAL, ALTER COLUMN times SET STORAGE EXTERNAL;

-- The fence of each writer name: only the newest epoch may write.
CREATE TABLE IF NOT EXISTS streamsched_log.writer (
    name  text   PRIMARY KEY,
    epoch bigint NOT NULL CHECK (epoch > 0)
) WITH (fillfactor = 10);

-- Appends batches, which must be ordered by topic and partition so that two appends cannot deadlock.
-- Batch i has counts[i] of the flat keys and values. The records have this server's time, or that of the caller, who
-- knows when this server's clock has jumped, when theirs differ by more than 5 s.
CREATE OR REPLACE FUNCTION streamsched_log.append_v1(
    topics integer[], partitions integer[], counts integer[], keys bytea[], vals bytea[], now_ms bigint
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    stamp_ms   bigint := extract(epoch FROM clock_timestamp()) * 1000;
    stop       bigint;
    done       integer := 0;
    batch_keys bytea[];
    batch_vals bytea[];
    woken      text := '';
BEGIN
    IF abs(stamp_ms - now_ms) > 5000 THEN
        stamp_ms := now_ms;
    END IF;
    FOR i IN 1 .. cardinality(topics) LOOP
        UPDATE streamsched_log.partition p SET "end" = p."end" + counts[i]
        WHERE p.topic_id = topics[i] AND p.partition = partitions[i]
        RETURNING p."end" INTO STRICT stop;
        batch_keys := keys[done + 1 : done + counts[i]];
        batch_vals := vals[done + 1 : done + counts[i]];
        INSERT INTO streamsched_log.batch
            (topic_id, partition, first_offset, last_offset, count, bytes, time_ms, keys, values)
        VALUES (topics[i], partitions[i], stop - counts[i], stop - 1, counts[i],
                pg_column_size(batch_keys) + pg_column_size(batch_vals),
                stamp_ms, batch_keys, batch_vals);
        done := done + counts[i];
        -- A notification carries at most 8000 bytes.
        IF length(woken) > 7900 THEN
            PERFORM pg_notify('streamsched_log', woken);
            woken := '';
        END IF;
        woken := woken || topics[i] || '.' || partitions[i] || ' ';
    END LOOP;
    IF woken <> '' THEN
        PERFORM pg_notify('streamsched_log', woken);
    END IF;
END $$;

-- Appends for the writer of a name; returns false and writes nothing when it was fenced. The share lock delays a newer
-- owner's epoch until this transaction ends.
CREATE OR REPLACE FUNCTION streamsched_log.commit_v1(
    writer_name text, writer_epoch bigint,
    topics integer[], partitions integer[], counts integer[], keys bytea[], vals bytea[], now_ms bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM streamsched_log.writer w WHERE w.name = writer_name AND w.epoch = writer_epoch FOR SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM streamsched_log.append_v1(topics, partitions, counts, keys, vals, now_ms);
    RETURN true;
END $$;

-- Rewrites one partition with the newest record of each key, offsets unchanged, and drops tombstones after their grace.
-- Readers see either the old or the new batches; both give the same newest values.
-- Returns NULL and does nothing while another pass is in progress, or when there are fewer new records than
-- `at_least` or than the last pass kept; otherwise returns the number of records removed.
-- Of this server's clock and the caller's the earlier counts.
CREATE OR REPLACE FUNCTION streamsched_log.compact_v1(
    topic integer, part integer, at_least bigint, grace interval, batch_count integer, batch_bytes integer,
    caller_ms bigint
) RETURNS bigint LANGUAGE plpgsql
-- The planner cannot know how many records lie in a batch, and would join millions by nested loops.
SET enable_nestloop = off AS $$
DECLARE
    now_ms  bigint := least(extract(epoch FROM clock_timestamp()) * 1000, caller_ms);
    gone_ms bigint := now_ms - extract(epoch FROM grace) * 1000;
    done    streamsched_log.compaction;
    stop    bigint;
    before  bigint;
    remain  bigint;
BEGIN
    INSERT INTO streamsched_log.compaction (topic_id, partition) VALUES (topic, part) ON CONFLICT DO NOTHING;
    SELECT * INTO done FROM streamsched_log.compaction c
    WHERE c.topic_id = topic AND c.partition = part FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT max(b.last_offset) + 1 INTO stop FROM streamsched_log.batch b WHERE b.topic_id = topic AND b.partition = part;
    IF stop IS NULL OR stop - done.cleaned_to < greatest(at_least, done.kept, 1) THEN
        RETURN NULL;
    END IF;

    WITH old AS (
        DELETE FROM streamsched_log.batch b
        WHERE b.topic_id = topic AND b.partition = part AND b.last_offset < stop
        RETURNING *
    ), narrow AS (
        SELECT coalesce(r.at, b.first_offset + r.nth - 1) AS at, r.key, r.is_tombstone, b.clean_ms
        FROM old b CROSS JOIN LATERAL (
            SELECT u.at, u.key, u.value IS NULL AS is_tombstone, u.nth
            FROM unnest(b.offsets, b.keys, b.values) WITH ORDINALITY AS u(at, key, value, nth)
        ) r
    ), newest AS (
        SELECT DISTINCT ON (key) at, is_tombstone, clean_ms FROM narrow WHERE key IS NOT NULL ORDER BY key, at DESC
    ), stay AS (
        SELECT at FROM newest
        WHERE NOT is_tombstone OR coalesce(clean_ms, now_ms) > gone_ms OR at = stop - 1
        UNION ALL
        SELECT at FROM narrow WHERE key IS NULL
    ), kept AS (
        SELECT r.*, (row_number() OVER in_order - 1) / batch_count AS by_count,
               sum(coalesce(length(r.key), 0) + coalesce(length(r.value), 0)) OVER in_order / batch_bytes AS by_bytes
        FROM (
            SELECT coalesce(u.at, b.first_offset + u.nth - 1) AS at, u.key, u.value, coalesce(u.time_ms, b.time_ms) AS time_ms,
                   coalesce(b.clean_ms, now_ms) AS clean_ms
            FROM old b CROSS JOIN LATERAL
                 unnest(b.offsets, b.times, b.keys, b.values) WITH ORDINALITY AS u(at, time_ms, key, value, nth)
        ) r JOIN stay USING (at)
        WINDOW in_order AS (ORDER BY r.at)
    ), new AS (
        INSERT INTO streamsched_log.batch
            (topic_id, partition, first_offset, last_offset, count, bytes, time_ms, clean_ms, offsets, times, keys, values)
        SELECT topic, part, min(at), max(at), count(*),
               sum(coalesce(length(key), 0) + coalesce(length(value), 0)), max(time_ms), max(clean_ms),
               CASE WHEN max(at) - min(at) + 1 > count(*) THEN array_agg(at ORDER BY at) END,
               CASE WHEN max(time_ms) > min(time_ms) THEN array_agg(time_ms ORDER BY at) END,
               array_agg(key ORDER BY at), array_agg(value ORDER BY at)
        FROM kept GROUP BY by_count, by_bytes
        RETURNING count
    )
    SELECT (SELECT sum(count) FROM old), (SELECT sum(count) FROM new) INTO before, remain;

    UPDATE streamsched_log.compaction c SET cleaned_to = stop, kept = remain
    WHERE c.topic_id = topic AND c.partition = part;
    RETURN before - remain;
END $$;

-- Last, so that an incomplete schema is never considered complete; see `connection.VERSION`.
COMMENT ON SCHEMA streamsched_log IS '4';
