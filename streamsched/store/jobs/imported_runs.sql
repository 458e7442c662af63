-- Adds runs of another scheduler to the history. ADR 29.

-- name: lock
-- One import at a time: ids in the history are not unique by themselves.
SELECT pg_advisory_xact_lock(hashtextextended('imported_runs', 0));

-- name: add
-- Adds those of these runs that are not known and have a program: the latest completed run of each program beside live
-- ones, where constraints look back, unless a later one is there, and the others to the history. Nothing is said of them
-- in `decisions`, which webhooks, expectations and messages follow; `muted`: their ends are not published either. The
-- runs that were added and those without a program.
WITH given AS (
    SELECT * FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[], $7::jsonb[], $8::text[]
    ) AS g (id, program, state, created_at, started_at, ended_at, arguments, reason)
), new AS MATERIALIZED (
    SELECT g.*, p.definition FROM given g JOIN programs p ON p.id = g.program
    WHERE NOT EXISTS (SELECT FROM runs r WHERE r.id = g.id) AND NOT EXISTS (SELECT FROM runs_history h WHERE h.id = g.id)
), latest AS (
    SELECT DISTINCT ON (program) id FROM new n
    WHERE state = 'COMPLETED' AND NOT EXISTS (
        SELECT FROM runs r WHERE r.program = n.program AND r.state = 'COMPLETED' AND r.ended_at >= n.ended_at
    )
    ORDER BY program, ended_at DESC, id
), live AS (
    INSERT INTO runs (id, attempt, program, executable, arguments, state, reason, created_at, started_at, ended_at, runner,
        muted, spans)
    SELECT id, 1, program, definition, arguments, state, reason, created_at, started_at, ended_at, 'imported', true, NULL
    FROM new WHERE id IN (SELECT id FROM latest)
), moved AS (
    INSERT INTO runs_history (done_at, id, program, state, created_at, record)
    SELECT ended_at, id, program, state, created_at, to_jsonb(jsonb_populate_record(NULL::runs, jsonb_build_object(
        'id', id, 'attempt', 1, 'program', program, 'executable', definition, 'arguments', arguments, 'state', state,
        'reason', reason, 'created_at', created_at, 'started_at', started_at, 'ended_at', ended_at, 'spawns', 0,
        'runner', 'imported', 'stop_at_once', false, 'muted', true, 'taken_over', false, 'fence_tries', 0
    )))
    FROM new WHERE id NOT IN (SELECT id FROM latest)
)
SELECT (SELECT count(*) FROM new) AS added, array(
    SELECT DISTINCT g.program FROM given g WHERE NOT EXISTS (SELECT FROM programs p WHERE p.id = g.program) ORDER BY 1
) AS unknown, (
    SELECT count(*) FROM given g WHERE NOT EXISTS (SELECT FROM programs p WHERE p.id = g.program)
) AS without_program;
