-- A commit may replace older commits of the same partitions: verdict `replaced`, given by schedules. Every existing row
-- satisfies the wider rules, so none is checked. Partitions have copies of the constraints. Comes after 0026.
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
    ADD CONSTRAINT verdicts_verdict_known CHECK (verdict IN ('counted', 'replaced', 'unmatched', 'duplicate', 'late',
        'no_listener', 'disabled', 'refused', 'parked', 'dead_lettered')) NOT VALID,
    ADD CONSTRAINT verdicts_of_schedules CHECK ((generation IS NOT NULL)
        = (verdict IN ('counted', 'replaced', 'unmatched', 'late', 'disabled', 'refused', 'parked'))) NOT VALID;
