-- What became of each event, copied from topic `verdicts`; a partition for each day (UTC), dropped when it is old.
CREATE TABLE verdicts (
    at timestamptz NOT NULL,                   -- when it was found, by the log
    event text NOT NULL,
    source text NOT NULL,                      -- '' when a dead letter did not say
    verdict text NOT NULL CHECK (verdict IN ('counted', 'unmatched', 'duplicate', 'late', 'no_listener', 'disabled',
        'dead_lettered')),
    subject text NOT NULL,                     -- the schedule whose verdict it is; else the event key; else topic/partition/offset
    generation bigint,                         -- of the schedule's definition, 0 when it was gone
    next_job bigint,                           -- the schedule's next job at that moment
    leaves text[],                             -- those it counted in
    cells text[],                              -- the correlation keys it counted under
    late text,                                 -- the policy that was applied when it came late
    since timestamptz,                         -- a repeat: when it was seen first; late: when it happened
    path text,                                 -- a dead letter: where in it
    reason text,                               -- and what is wrong there
    CHECK ((generation IS NOT NULL) = (verdict IN ('counted', 'unmatched', 'late', 'disabled'))),
    CHECK ((reason IS NOT NULL) = (verdict = 'dead_lettered'))
) PARTITION BY RANGE (at);
-- By a hash of the id: eight bytes whatever the id, and ids of any length.
CREATE INDEX verdicts_of_event ON verdicts (hashtextextended(event, 0));

-- How often each verdict was given at all, by whom: kept when the days are dropped.
CREATE TABLE verdict_totals (
    subject text NOT NULL,                     -- the schedule; '' for those no schedule gave
    verdict text NOT NULL,
    late text NOT NULL,                        -- the policy that was applied when they came late, else ''
    total bigint NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (subject, verdict, late)
) WITH (fillfactor = 50);

-- Makes the partition of a day (UTC) of a table partitioned by day, unless it is there. One process at a time.
CREATE FUNCTION make_day_v1(parent text, day date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    part text := parent || to_char(day, '_YYYYMMDD');
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(parent, 0));
    IF to_regclass(quote_ident(part)) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, parent);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part,
            day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
    END IF;
END
$$;

-- Drops the partitions of days before `day`; gives up on one that somebody reads for more than a second. How many went.
CREATE FUNCTION drop_days_v1(parent text, day date) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    part text;
    gone integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(parent, 0));
    PERFORM set_config('lock_timeout', '1s', true);
    FOR part IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = parent::regclass AND c.relname < parent || to_char(day, '_YYYYMMDD')
        ORDER BY c.relname
    LOOP
        BEGIN
            EXECUTE format('DROP TABLE %I', part);
            gone := gone + 1;
        EXCEPTION WHEN lock_not_available THEN
            RETURN gone;
        END;
    END LOOP;
    RETURN gone;
END
$$;
