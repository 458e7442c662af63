-- Bundles of programs.

-- name: use
-- Whether it exists; it is in use from now on.
UPDATE bundles SET used_at = greatest(used_at, $3) WHERE namespace = $1 AND digest = $2 RETURNING true;

-- name: put
-- A new one; its chunks follow in the same transaction.
INSERT INTO bundles (namespace, digest, bytes, files, created_at, used_at) VALUES ($1, $2, $3, $4, $5, $5)
ON CONFLICT (namespace, digest) DO NOTHING RETURNING true;

-- name: put_chunk
-- A part of its content.
INSERT INTO bundle_chunks (namespace, digest, number, content) VALUES ($1, $2, $3, $4);

-- name: list
-- Those of a namespace, the newest first.
SELECT b.namespace, b.digest, b.bytes, b.files, b.created_at, b.used_at, (
    SELECT count(*) FROM programs p
    WHERE p.definition ? 'bundle' AND p.definition ->> 'bundle' = b.digest AND split_part(p.id, '.', 1) = b.namespace
) AS programs
FROM bundles b WHERE b.namespace = $1 ORDER BY b.created_at DESC, b.digest LIMIT 1000;

-- name: chunk
-- A part of its content.
SELECT content FROM bundle_chunks WHERE namespace = $1 AND digest = $2 AND number = $3;

-- name: remove_unused
-- Bundles not in use since $1, to which no program and no active run refers. At most 100 at a time. The outer condition
-- is checked again on a row that a deployment has just marked as used.
DELETE FROM bundles WHERE used_at < $1 AND (namespace, digest) IN (
    SELECT b.namespace, b.digest FROM bundles b
    WHERE b.used_at < $1
        AND NOT EXISTS (
            SELECT FROM programs p
            WHERE p.definition ? 'bundle' AND p.definition ->> 'bundle' = b.digest
                AND split_part(p.id, '.', 1) = b.namespace
        )
        AND NOT EXISTS (
            SELECT FROM runs r
            WHERE r.state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
                AND r.executable ? 'bundle' AND r.executable ->> 'bundle' = b.digest
        )
    LIMIT 100
)
RETURNING digest;
