-- Schedules that wait for a program of another namespace that was deleted. They stay as they are; the row says so until the
-- program is deployed again. See ports/catalog.py, RemovedProgram.
CREATE TABLE removed_programs (
    schedule text NOT NULL,
    program text NOT NULL,
    removed_at timestamptz NOT NULL,
    removed_by text NOT NULL,  -- the caller; empty when it is not known
    PRIMARY KEY (schedule, program)
);

CREATE INDEX removed_programs_by_program ON removed_programs (program);
