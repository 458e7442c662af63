-- What runs have committed.

-- name: add
-- Each once, by its name in the object; a run without a job has the id of its job. No more than $4 of a run.
UPDATE runs AS r SET commits = n.commits || coalesce(r.commits, '{}')
FROM (
    SELECT run, job, jsonb_object_agg(name, said::jsonb) AS commits
    FROM unnest($1::text[], $2::text[], $3::text[], $5::text[]) AS w (run, job, name, said)
    GROUP BY run, job
) AS n
WHERE r.id IN (n.run, n.job) AND NOT coalesce(r.commits, '{}') @> n.commits
    AND (SELECT count(*) FROM jsonb_object_keys(n.commits || coalesce(r.commits, '{}'))) <= $4;
