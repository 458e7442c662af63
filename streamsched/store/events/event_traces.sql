-- What became of one event: its findings, and what they point at.

-- name: findings
-- The findings about one event, oldest first; of any source when $2 is NULL.
SELECT at, event, source, verdict, subject, generation, next_job, leaves, cells, late, since, path, reason, why
FROM verdicts
WHERE hashtextextended(event, 0) = hashtextextended($1, 0) AND event = $1 AND ($2::text IS NULL OR source = $2)
ORDER BY at
LIMIT $3;

-- name: consuming_job
-- The first of these jobs that holds the event, which arrived at $3; its runs are those of the job it was coalesced into,
-- if any. Ended jobs may be in the history.
SELECT id, state, reason, joined, runs, run_state FROM (
    SELECT j.id, j.generation, j.sequence, j.state, j.reason, j.joined,
        array(SELECT r.id FROM runs r WHERE r.job = coalesce(j.joined, j.id) ORDER BY r.attempt) AS runs,
        (SELECT r.state FROM runs r WHERE r.job = coalesce(j.joined, j.id) ORDER BY r.attempt DESC LIMIT 1) AS run_state
    FROM jobs j
    WHERE j.id = ANY ($1::text[]) AND j.ready @> $2::jsonb
    UNION ALL
    SELECT j.id, j.generation, j.sequence, j.state, j.reason, j.joined, t.runs,
        (SELECT r.state FROM runs_history r WHERE r.id = t.runs[cardinality(t.runs)] AND r.done_at = h.done_at)
    FROM jobs_history h CROSS JOIN LATERAL jsonb_populate_record(NULL::jobs, h.record) AS j
    JOIN jobs_history t ON t.id = coalesce(j.joined, j.id) AND t.done_at = h.done_at
    WHERE h.id = ANY ($1::text[]) AND h.done_at >= $3::timestamptz - interval '1 hour' AND j.ready @> $2::jsonb
) AS holding
ORDER BY generation, sequence
LIMIT 1;

-- name: standings
-- Current schedules, tombstones too.
SELECT s.id, s.definition, s.generation, s.enabled, s.created_at, s.updated_at, s.deleted_at, s.kept_in,
    s.kept_from, s.resumed_at, s.affinity, z.mode, z.until, z.note, p.progress
FROM schedules s
LEFT JOIN pauses z ON z.schedule = s.id AND z.generation = s.generation
LEFT JOIN trigger_progress p ON p.schedule = s.id AND p.generation = s.generation
WHERE s.id = ANY ($1::text[]);

-- name: mentioning
-- Schedules whose definition contains one of these texts: a prefilter before definitions are decoded.
SELECT s.id, s.definition, s.generation, s.enabled, s.created_at, s.updated_at, s.deleted_at, s.kept_in,
    s.kept_from, s.resumed_at, s.affinity, z.mode, z.until, z.note, NULL::jsonb AS progress
FROM schedules s
LEFT JOIN pauses z ON z.schedule = s.id AND z.generation = s.generation
WHERE s.deleted_at IS NULL
    AND EXISTS (SELECT FROM unnest($1::text[]) AS name WHERE strpos(s.definition::text, name) > 0)
ORDER BY s.id
LIMIT $2;

-- name: totals
-- The verdict counts of a schedule, of all time.
SELECT verdict, late, total, last_at FROM verdict_totals WHERE subject = $1 ORDER BY verdict, late;
