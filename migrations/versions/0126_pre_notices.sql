-- Schedules, and programs that were started without one, whose latest run failed with its last attempt (ADR 179).
CREATE TABLE IF NOT EXISTS failing (
    owner text PRIMARY KEY,
    run text NOT NULL,
    since timestamptz NOT NULL
);
-- Who is notified of the failures of an app.
CREATE TABLE IF NOT EXISTS notice_recipients (
    id text PRIMARY KEY,                       -- the app, and a digest of the definition
    app text NOT NULL,
    place integer NOT NULL,                    -- in the app's definition
    definition jsonb NOT NULL,
    first bigint,                              -- the first line of the history that is to be sent; NULL: there is none
    sent_at timestamptz                        -- when the latest message was made
);
CREATE INDEX IF NOT EXISTS notice_recipients_of_app ON notice_recipients (app);
CREATE INDEX IF NOT EXISTS notice_recipients_waiting ON notice_recipients (sent_at) WHERE first IS NOT NULL;
-- When the latest message of a webhook for people was made.
ALTER TABLE webhooks ADD COLUMN IF NOT EXISTS sent_at timestamptz;
-- Lines of jobs and runs that recipients may want: few of many. The queries have the same condition.
CREATE INDEX IF NOT EXISTS work_decisions_failures ON ONLY work_decisions (id)
    WHERE action IN ('job.deadline_missed', 'run.recovered') OR subject_kind = 'run' AND detail -> 'failed' IS NOT NULL;
-- Who follows the history reads its lines by number. Its parts are indexed one by one, beside writers.
CREATE INDEX IF NOT EXISTS audit_decisions_by_id ON ONLY audit_decisions (id);
