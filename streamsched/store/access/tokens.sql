-- name: find
-- A token with its secret's digest, to authenticate a request.
SELECT id, name, grants, created_at, created_by, expires_at, revoked_at, revoked_by, used_at, digest
FROM api_tokens
WHERE id = $1;

-- name: create
-- A new token; its name is unique among those not revoked.
INSERT INTO api_tokens (id, name, digest, grants, created_at, created_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: page
-- From behind the cursor (name, id).
SELECT id, name, grants, created_at, created_by, expires_at, revoked_at, revoked_by, used_at, digest
FROM api_tokens
WHERE (name, id) > ($1, $2)
ORDER BY name, id
LIMIT $3;

-- name: revoke
-- By the name of a token in use, else by id. A repeat keeps the first revocation.
UPDATE api_tokens
SET revoked_at = coalesce(revoked_at, $3),
    revoked_by = CASE WHEN revoked_at IS NULL THEN $2 ELSE revoked_by END
WHERE id = coalesce((SELECT id FROM api_tokens WHERE name = $1 AND revoked_at IS NULL), $1)
RETURNING id, name, grants, created_at, created_by, expires_at, revoked_at, revoked_by, used_at, digest;

-- name: record_use
-- At most once a minute for each token.
UPDATE api_tokens
SET used_at = $2::timestamptz
WHERE id = $1 AND (used_at IS NULL OR used_at < $2::timestamptz - interval '1 minute');

-- name: offer_key
-- The first process to come makes the key.
INSERT INTO installation_key (key) VALUES ($1) ON CONFLICT DO NOTHING;

-- name: key
-- The key that signs tokens of runs.
SELECT key FROM installation_key;

-- name: is_run_active
-- Whether the run may still use its token.
SELECT EXISTS (SELECT FROM runs WHERE id = $1 AND ended_at IS NULL);
