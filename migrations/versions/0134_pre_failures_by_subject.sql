-- The same lines as by number, for the recipients of one app.
CREATE INDEX IF NOT EXISTS work_decisions_failures_of_subject ON ONLY work_decisions (subject, id)
    WHERE action IN ('job.deadline_missed', 'run.recovered') OR subject_kind = 'run' AND detail -> 'failed' IS NOT NULL;
