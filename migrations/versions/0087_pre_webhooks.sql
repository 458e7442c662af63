-- Targets that are sent the changes of jobs and runs (ADR 144). Each has a queue of tasks, `webhook.<id>`.
CREATE TABLE IF NOT EXISTS webhooks (
    id text PRIMARY KEY,                       -- namespace.name
    definition jsonb NOT NULL,                 -- without its secret
    secret text,                               -- the generated one; NULL: the definition refers to one
    position bigint NOT NULL,                  -- the last line of the history that was put into its queue, or passed over
    fed_at timestamptz NOT NULL,               -- due time of the tasks that were put into its queue last; never goes back
    enabled boolean NOT NULL DEFAULT true,
    changed_at timestamptz NOT NULL,           -- when it was created, enabled or disabled
    reason text NOT NULL DEFAULT '',           -- of that
    by_owner boolean NOT NULL DEFAULT true,    -- false: the installation disabled it
    created_at timestamptz NOT NULL,
    created_by text NOT NULL,
    CONSTRAINT webhooks_position CHECK (position >= 0),
    CONSTRAINT webhooks_enabled_by_owner CHECK (by_owner OR NOT enabled)
);
-- Who follows the history reads the lines after a number. Its parts are indexed one by one, beside writers.
CREATE INDEX IF NOT EXISTS work_decisions_by_id ON ONLY work_decisions (id);
