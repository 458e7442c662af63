-- A job may come from a person instead of a trigger. Its id is made of the schedule, or of the program when no schedule
-- was named, and of the request's idempotency key. Every existing row satisfies the wider rules, so none is checked.
ALTER TABLE jobs ADD COLUMN submitted boolean NOT NULL DEFAULT false;
ALTER TABLE jobs ALTER COLUMN schedule DROP NOT NULL;
ALTER TABLE jobs_history ALTER COLUMN schedule DROP NOT NULL;
ALTER TABLE jobs DROP CONSTRAINT jobs_check;
ALTER TABLE jobs
    ADD CONSTRAINT jobs_owner CHECK (schedule IS NOT NULL OR (submitted AND program IS NOT NULL)) NOT VALID,
    ADD CONSTRAINT jobs_id CHECK (CASE WHEN submitted
        THEN starts_with(id, coalesce(schedule, program) || '.')
        ELSE id = schedule || '.' || generation || '.' || sequence END) NOT VALID;
