-- Ready jobs from topic launch. Positions: positions.sql.

-- name: take
-- One statement, so that jobs and positions change together and no client can die or pause in between. A batch is stored
-- when the partition's position equals its start and is not locked. A schedule changed, disabled or deleted after this
-- snapshot is detected by the launcher, under its lock. A repeat finds the job in the table or in `jobs_spent`.
WITH held AS MATERIALIZED (
    SELECT p.partition, b.next
    FROM intake_positions p
    JOIN unnest($2::integer[], $3::bigint[], $4::bigint[]) AS b (partition, start, next) USING (partition)
    WHERE p.topic = $1 AND p.position = b.start
    FOR UPDATE OF p SKIP LOCKED
), moved AS (
    UPDATE intake_positions p SET position = h.next
    FROM held h
    WHERE p.topic = $1 AND p.partition = h.partition
    RETURNING p.partition
), incoming AS (
    SELECT i.*, s.program, s.pool, coalesce(s.priority_set, s.priority) AS priority, CASE
            WHEN s.id IS NULL THEN 'its schedule is unknown'
            WHEN s.deleted_at IS NOT NULL THEN 'its schedule was deleted'
            WHEN i.generation >= s.oldest_valid_generation AND i.generation <= s.generation THEN NULL
            WHEN s.generation <> i.generation THEN
                format('its schedule changed: this is generation %s, now %s stands', i.generation, s.generation)
            ELSE 'its schedule is disabled'
        END AS superseded
    FROM unnest($5::integer[], $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::timestamptz[], $11::text[],
        $12::text[])
        AS i (partition, id, schedule, generation, sequence, satisfied_at, ready, ancestors)
    JOIN held h ON h.partition = i.partition
    LEFT JOIN schedules s ON s.id = i.schedule
    LEFT JOIN jobs_spent d ON d.schedule = i.schedule
    WHERE d.schedule IS NULL OR (i.generation, i.sequence) > (d.generation, d.sequence)
), inserted AS (
    INSERT INTO jobs (id, schedule, generation, sequence, program, state, reason, satisfied_at, created_at,
        next_check_at, ready, ended_at, ancestors)
    SELECT id, schedule, generation, sequence, program,
        CASE WHEN superseded IS NULL THEN $14 ELSE $15 END, coalesce(superseded, ''), satisfied_at, $13::timestamptz,
        CASE WHEN superseded IS NULL THEN timestamptz 'epoch' END, ready::jsonb,
        CASE WHEN superseded IS NOT NULL THEN $13::timestamptz END, ancestors::jsonb
    FROM incoming
    ON CONFLICT DO NOTHING
    RETURNING id, ended_at, reason
), recorded AS (
    INSERT INTO decisions (at, subject_kind, subject, action, reason)
    SELECT $13::timestamptz, 'job', id, 'job.obsolete', reason FROM inserted WHERE ended_at IS NOT NULL
), lined AS (
    INSERT INTO lines (job, pool, turn_at, sequence)
    SELECT i.id, i.pool, i.satisfied_at - make_interval(secs => i.priority * coalesce(g.age_s, 60)), i.sequence
    FROM inserted d JOIN incoming i USING (id) LEFT JOIN groups g ON g.name = 'pool:' || i.pool
    WHERE i.pool IS NOT NULL AND d.ended_at IS NULL
    ON CONFLICT DO NOTHING
), rung AS (
    SELECT pg_notify('launcher', '') FROM inserted WHERE ended_at IS NULL LIMIT 1
)
SELECT array(SELECT partition FROM moved) AS partitions,
    (SELECT count(*) FROM inserted) AS jobs,
    (SELECT count(*) FROM inserted WHERE ended_at IS NOT NULL) AS obsolete,
    (SELECT count(*) FROM rung) AS rung;
