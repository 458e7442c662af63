-- Profiles of Spark programs: settings that programs name. Namespace '*': of the installation, for programs of all
-- namespaces. See ports/programs/profiles.py.
CREATE TABLE spark_profiles (
    namespace text NOT NULL,
    name text NOT NULL,
    definition jsonb NOT NULL CHECK (jsonb_typeof(definition) = 'object'),   -- codec.schedules.spark_needs
    reason text NOT NULL DEFAULT '',    -- of the last change
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, name)
);

CREATE INDEX spark_profiles_by_name ON spark_profiles (name);

-- The programs that name a profile.
CREATE INDEX programs_by_profile ON programs ((definition ->> 'profile')) WHERE definition ? 'profile';
