-- Why schedules are in error, and how many signals wait in each: a copy of their shards' rows, as trigger_progress is.
CREATE TABLE schedule_halts (
    schedule text PRIMARY KEY,
    halt jsonb NOT NULL,                       -- codec.halt
    updated_at timestamptz NOT NULL            -- of the row in the log
);

-- Events may be parked. Every row keeps the wider rule already, so none is looked at. Parts have the rules of their own.
DO $$
DECLARE
    part regclass;
BEGIN
    FOR part IN
        SELECT 'verdicts'::regclass UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent = 'verdicts'::regclass
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS verdicts_verdict_check, '
            'DROP CONSTRAINT IF EXISTS verdicts_check', part);
    END LOOP;
END
$$;
ALTER TABLE verdicts
    ADD CONSTRAINT verdicts_verdict_known CHECK (verdict IN ('counted', 'unmatched', 'duplicate', 'late', 'no_listener',
        'disabled', 'parked', 'dead_lettered')) NOT VALID,
    ADD CONSTRAINT verdicts_of_schedules CHECK (
        (generation IS NOT NULL) = (verdict IN ('counted', 'unmatched', 'late', 'disabled', 'parked'))) NOT VALID;
