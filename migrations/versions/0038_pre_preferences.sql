-- Preferences of namespaces: arguments of every run of their programs. A namespace without a row has none.
CREATE TABLE preferences (
    namespace text PRIMARY KEY,
    arguments jsonb NOT NULL CHECK (jsonb_typeof(arguments) = 'object'),
    reason text NOT NULL DEFAULT '',    -- of the last change
    changed_at timestamptz              -- null: never changed
);

-- Their changes are in the history, below the namespace. All rows keep the old list, so none is read again.
ALTER TABLE decisions DROP CONSTRAINT decisions_subject_kind_check;
ALTER TABLE decisions ADD CONSTRAINT decisions_subject_kind_check
    CHECK (subject_kind IN ('app', 'program', 'schedule', 'job', 'run', 'group', 'namespace')) NOT VALID;
