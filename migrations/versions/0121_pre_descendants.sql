-- The jobs that descend from one: only those of programs that programs started have an entry.
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_by_ancestor ON jobs USING gin (ancestors jsonb_path_ops)
    WITH (fastupdate = off) WHERE ancestors IS NOT NULL;
-- Schedules that join ends of programs per run of an ancestor: a deployment says which of them it breaks.
CREATE INDEX CONCURRENTLY IF NOT EXISTS schedules_joining ON schedules (id)
    WHERE deleted_at IS NULL AND jsonb_path_exists(definition, '$.trigger.**.runOf');
