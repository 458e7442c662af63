-- An event may correct the data of a job that was made before: verdict `correction`, given by schedules. Every existing
-- row satisfies the wider rules, so none is checked. Partitions have copies of the constraints.
DO $$
DECLARE
    part regclass;
BEGIN
    FOR part IN
        SELECT 'verdicts'::regclass UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent = 'verdicts'::regclass
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS verdicts_verdict_known, '
            'DROP CONSTRAINT IF EXISTS verdicts_of_schedules', part);
    END LOOP;
END
$$;
ALTER TABLE verdicts
    ADD CONSTRAINT verdicts_verdict_known CHECK (verdict IN ('counted', 'replaced', 'correction', 'unmatched', 'duplicate',
        'late', 'no_listener', 'disabled', 'refused', 'parked', 'dead_lettered')) NOT VALID,
    ADD CONSTRAINT verdicts_of_schedules CHECK ((generation IS NOT NULL)
        = (verdict IN ('counted', 'replaced', 'correction', 'unmatched', 'late', 'disabled', 'refused', 'parked'))) NOT VALID;
