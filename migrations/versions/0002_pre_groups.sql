-- Named groups of slots that runs of any program share.

CREATE TABLE groups (
    name text PRIMARY KEY,
    slots integer CHECK (slots >= 0),          -- the limit set online; NULL: each schedule's own counts
    changed_at timestamptz                     -- when that was set
);

-- What non-terminal runs hold: a row goes with the end of its run. Taken and freed under the group's row lock.
CREATE TABLE group_slots (
    group_name text NOT NULL REFERENCES groups (name),
    run text NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    weight integer NOT NULL CHECK (weight > 0),
    PRIMARY KEY (run, group_name)
);
CREATE INDEX group_slots_by_group ON group_slots (group_name);

-- Who is woken when slots become free: the jobs whose last ruling was to wait for them.
CREATE TABLE group_waits (
    group_name text NOT NULL REFERENCES groups (name),
    job text NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    satisfied_at timestamptz NOT NULL,
    PRIMARY KEY (job, group_name)
);
CREATE INDEX group_waits_in_order ON group_waits (group_name, satisfied_at, job);

-- The history knows groups. Wider than before: whatever the old code writes stays allowed, so no row is looked at.
ALTER TABLE decisions DROP CONSTRAINT decisions_subject_kind_check;
ALTER TABLE decisions ADD CONSTRAINT decisions_subject_kind_check
    CHECK (subject_kind IN ('app', 'program', 'schedule', 'job', 'run', 'group')) NOT VALID;
