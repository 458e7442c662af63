-- The audit. Entries are written in the transaction of what they are about.

-- name: lock
-- Entries are appended one after another.
SELECT pg_advisory_xact_lock(hashtextextended('audit', 0));

-- name: head
-- The entry that the next one follows; number 0: none. Without a row, it was removed by a user who owns the table.
SELECT number, hash FROM audit_head;

-- name: start
-- The entry before the first one that is kept; number 0: all are.
SELECT number, hash FROM audit_start;

-- name: oldest
-- Of the $2 oldest entries the last before the first that is not older than $1.
WITH oldest AS MATERIALIZED (
    SELECT number, at, hash FROM audit WHERE number > (SELECT number FROM audit_start) ORDER BY number LIMIT $2
)
SELECT number, hash FROM oldest
WHERE number < coalesce((SELECT min(number) FROM oldest WHERE at >= $1), 9223372036854775807)
ORDER BY number DESC LIMIT 1;

-- name: move_start
-- Those up to this entry may go; the last entry says so.
UPDATE audit_start SET number = $1, hash = $2;

-- name: forget
-- Deletes the entries up to the start.
DELETE FROM audit WHERE number <= $1;

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
