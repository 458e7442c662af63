-- A change may keep what the generation before it had. `kept_in` is the generation that `kept_from` was written for: a
-- release that does not know them leaves them behind at its next change, and then nothing is kept.
ALTER TABLE schedules ADD COLUMN kept_in bigint, ADD COLUMN kept_from bigint;

-- Jobs of this generation and later may run; of a disabled schedule none may, unless its pause keeps.
ALTER TABLE schedules ADD COLUMN stands_from bigint NOT NULL GENERATED ALWAYS AS (
    CASE WHEN kept_in = generation THEN kept_from WHEN enabled THEN generation ELSE generation + 1 END
) STORED;
ALTER TABLE schedules ADD CONSTRAINT schedules_kept CHECK ((kept_in IS NULL) = (kept_from IS NULL));

-- How and until when a schedule is paused. A row of another generation than the schedule's says nothing any more.
CREATE TABLE pauses (
    schedule text PRIMARY KEY REFERENCES schedules (id) ON DELETE CASCADE,
    generation bigint NOT NULL,
    keep boolean NOT NULL,
    until timestamptz,                         -- NULL: until somebody resumes it
    note text NOT NULL DEFAULT ''
);
CREATE INDEX pauses_ending ON pauses (until) WHERE until IS NOT NULL;

-- Which schedules wait for a program: asked when one is removed. `definition` is codec.schedule's, its trigger CDAP's.
CREATE INDEX schedules_by_awaited_program ON schedules
    USING gin (jsonb_path_query_array(definition, '$.trigger.**.programId') jsonb_path_ops) WHERE deleted_at IS NULL;
