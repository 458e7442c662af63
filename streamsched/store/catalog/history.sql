-- History: every decision with its reason.

-- name: record
-- One line.
INSERT INTO decisions (at, subject_kind, subject, action, reason, detail) VALUES ($1, $2, $3, $4, $5, $6::jsonb);

-- name: record_all
-- Lines in the order given.
INSERT INTO decisions (at, subject_kind, subject, action, reason, detail)
SELECT at, subject_kind, subject, action, reason, detail
FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::text[], $6::jsonb[])
    WITH ORDINALITY AS given (at, subject_kind, subject, action, reason, detail, place)
ORDER BY place;

-- name: history
-- The newest lines about one subject.
SELECT at, subject_kind, subject, action, reason, detail
FROM decisions
WHERE subject = $1 AND subject_kind = $2
ORDER BY id DESC
LIMIT $3;
