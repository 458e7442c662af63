-- What has ended moves out of the tables the launchers work on, into tables with a partition for each day (UTC), which
-- are dropped when they are old. Why it is done so: ADR 0043.

-- Makes the partition of a span of a table partitioned by time, unless it is there; rows of the span that came before it
-- and lie in `<parent>_rest` move into it. Gives up when somebody holds those for more than a second. One at a time.
CREATE FUNCTION make_part_v1(parent text, begins timestamptz, ends timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    part text := parent || to_char(begins AT TIME ZONE 'UTC', '_YYYYMMDD');
    rest text := parent || '_rest';
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(parent, 0));
    IF to_regclass(quote_ident(part)) IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', '1s', true);
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, parent);
    IF to_regclass(quote_ident(rest)) IS NOT NULL THEN
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', rest);
        EXECUTE format('WITH early AS (DELETE FROM %I WHERE at >= %L AND at < %L RETURNING *) INSERT INTO %I SELECT * FROM early',
            rest, begins, ends, part);
    END IF;
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part, begins, ends);
END
$$;

-- Drops the oldest partition that ends by then; its name, '' when there is none, NULL when somebody reads or writes the
-- table just now. One for each transaction, and a short wait: who works on the table waits behind us.
CREATE FUNCTION drop_part_v1(parent text, before timestamptz) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    part text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(parent, 0));
    SELECT c.relname INTO part FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = parent::regclass
        AND substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([^'']+)''\)')::timestamptz <= before
    ORDER BY c.relname LIMIT 1;
    IF part IS NULL THEN
        RETURN '';
    END IF;
    PERFORM set_config('lock_timeout', '200ms', true);
    BEGIN
        EXECUTE format('DROP TABLE %I', part);
    EXCEPTION WHEN lock_not_available THEN
        RETURN NULL;
    END;
    RETURN part;
END
$$;

-- Jobs that have ended, with all their runs. `record` is the row as it was: a column that is new since then is NULL.
CREATE TABLE jobs_history (
    done_at timestamptz NOT NULL,              -- the end of the job and of the last of its runs
    id text NOT NULL,
    schedule text NOT NULL,
    state text NOT NULL,
    created_at timestamptz NOT NULL,
    runs text[] NOT NULL,                      -- first attempt first
    record jsonb NOT NULL
) PARTITION BY RANGE (done_at);
CREATE INDEX jobs_history_by_id ON jobs_history (id);
CREATE INDEX jobs_history_recent ON jobs_history (created_at DESC, id DESC);
CREATE INDEX jobs_history_of_schedule ON jobs_history (schedule, created_at DESC, id DESC);

CREATE TABLE runs_history (
    done_at timestamptz NOT NULL,              -- its job's, so that both go together; by hand: its own end
    id text NOT NULL,
    program text NOT NULL,
    schedule text,                             -- NULL: started by hand
    state text NOT NULL,
    created_at timestamptz NOT NULL,
    record jsonb NOT NULL
) PARTITION BY RANGE (done_at);
CREATE INDEX runs_history_by_id ON runs_history (id);
CREATE INDEX runs_history_recent ON runs_history (created_at DESC, id DESC);
CREATE INDEX runs_history_of_program ON runs_history (program, created_at DESC, id DESC);

-- How far a schedule's jobs have left `jobs`. Its jobs come in order, so one that is not in `jobs` and not above this was
-- there before: a repeat of it from the log finds nothing, and must not begin again.
CREATE TABLE jobs_spent (
    schedule text PRIMARY KEY,
    generation bigint NOT NULL,
    sequence bigint NOT NULL
);

-- Rows leave these tables every few minutes.
ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
ALTER TABLE runs SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);

-- History, as before, but by kind and time: what was decided about jobs and runs goes by days, what was done to
-- schedules, programs and the like by months. Where a day has no partition yet, `…_rest` takes the row.
ALTER TABLE decisions RENAME TO decisions_before;
ALTER TABLE decisions_before RENAME CONSTRAINT decisions_subject_kind_check TO decisions_before_subject_kind_check;
ALTER INDEX decisions_of_subject RENAME TO decisions_before_of_subject;
CREATE SEQUENCE decisions_ids;
CREATE TABLE decisions (
    id bigint NOT NULL DEFAULT nextval('decisions_ids'),
    at timestamptz NOT NULL,
    subject_kind text NOT NULL,
    subject text NOT NULL,
    action text NOT NULL,
    reason text NOT NULL DEFAULT '',
    detail jsonb,
    CONSTRAINT decisions_subject_kind_check
        CHECK (subject_kind IN ('app', 'program', 'schedule', 'job', 'run', 'group'))
) PARTITION BY LIST (subject_kind);
ALTER SEQUENCE decisions_ids OWNED BY decisions.id;
CREATE TABLE work_decisions PARTITION OF decisions FOR VALUES IN ('job', 'run') PARTITION BY RANGE (at);
CREATE TABLE audit_decisions PARTITION OF decisions DEFAULT PARTITION BY RANGE (at);
CREATE TABLE work_decisions_rest PARTITION OF work_decisions DEFAULT;
CREATE TABLE audit_decisions_rest PARTITION OF audit_decisions DEFAULT;
CREATE INDEX decisions_of_subject ON decisions (subject, id);
SELECT make_part_v1('work_decisions', day AT TIME ZONE 'UTC', (day + interval '1 day') AT TIME ZONE 'UTC')
FROM generate_series(date_trunc('day', now() AT TIME ZONE 'UTC'), date_trunc('day', now() AT TIME ZONE 'UTC')
    + interval '3 days', interval '1 day') AS day;
SELECT make_part_v1('audit_decisions', month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC')
FROM generate_series(date_trunc('month', now() AT TIME ZONE 'UTC'), date_trunc('month', now() AT TIME ZONE 'UTC')
    + interval '1 month', interval '1 month') AS month;
-- Before the first release histories are short: they are copied, and the retention sorts them into their days.
INSERT INTO decisions (at, subject_kind, subject, action, reason, detail)
SELECT at, subject_kind, subject, action, reason, detail FROM decisions_before ORDER BY id;
DROP TABLE decisions_before;
