-- The audit. Entries are written in the transaction of what they are about.

-- name: lock
-- Entries are appended one after another.
SELECT pg_advisory_xact_lock(hashtextextended('audit', 0));

-- name: head
-- The entry that the next one follows; number 0: none. Without a row, it was removed by a user who owns the table.
SELECT number, hash FROM audit_head;

-- name: append
-- An entry behind the last one; under the lock.
INSERT INTO audit (number, at, caller, action, target, detail, previous, hash)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

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
