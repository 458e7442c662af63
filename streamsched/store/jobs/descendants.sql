-- Jobs by what they descend from (jobs.ancestors).

-- name: latest
-- For each digest of a job of the program with the digest $1, and each program: its newest job that descends from that
-- one, preferably one that is not coalesced into another, with its last run.
SELECT k.digest, k.program, j.id AS job, j.state, j.reason, j.joined, r.id AS run, r.state AS run_state,
    r.reason AS run_reason
FROM unnest($2::text[], $3::text[]) AS k (digest, program)
CROSS JOIN LATERAL (
    SELECT id, state, reason, joined FROM jobs
    WHERE ancestors @> jsonb_build_object('jobs', jsonb_build_object($1::text, jsonb_build_array(k.digest)))
        AND jobs.program = k.program
    ORDER BY state = 'COALESCED', created_at DESC, id DESC
    LIMIT 1
) AS j
LEFT JOIN LATERAL (SELECT id, state, reason FROM runs WHERE job = j.id ORDER BY attempt DESC LIMIT 1) AS r ON true;

-- name: named
-- The first jobs of the newest runs of the program $1, or these runs, that have one of the digests $2 (of $3 digits).
SELECT DISTINCT first AS id, digest FROM (
    SELECT split_part(coalesce(job, id), '.rerun-', 1) AS first FROM runs
    WHERE program = $1 ORDER BY created_at DESC LIMIT 10000
) AS newest CROSS JOIN LATERAL (
    SELECT left(encode(sha256(convert_to(first, 'UTF8')), 'hex'), $3) AS digest
) AS known
WHERE digest = ANY ($2::text[]);
