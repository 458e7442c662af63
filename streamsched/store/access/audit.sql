-- name: newest
-- A page, newest first.
SELECT number, at, caller, action, target, detail, previous, hash
FROM audit
WHERE number < $1
ORDER BY number DESC
LIMIT $2;

-- name: newest_of_caller
-- The same of one caller.
SELECT number, at, caller, action, target, detail, previous, hash
FROM audit
WHERE caller = $3 AND number < $1
ORDER BY number DESC
LIMIT $2;

-- name: following
-- A page, oldest first, to check the chain.
SELECT number, at, caller, action, target, detail, previous, hash
FROM audit
WHERE number > $1
ORDER BY number
LIMIT $2;
