-- A schedule may be paused so that its waiting jobs still run (drain), or so that it makes jobs which wait (backlog).
-- NULL: written by a release that only knows `keep`.
ALTER TABLE pauses
    ADD COLUMN mode text CHECK (mode IN ('keep', 'drop', 'drain', 'backlog')),
    ADD CONSTRAINT pauses_mode CHECK (mode IS NULL OR keep = (mode <> 'drop'));

-- `draining_in` is the generation that drains: a release that does not know it leaves it behind at its next change.
-- `admits`: waiting jobs may run. `resumed_at`: when a pause that held waiting jobs last ended; timeouts count from then.
ALTER TABLE schedules
    ADD COLUMN draining_in bigint,
    ADD COLUMN resumed_at timestamptz;
ALTER TABLE schedules ADD COLUMN admits boolean NOT NULL GENERATED ALWAYS AS (
    enabled OR coalesce(draining_in = generation, false)
) STORED;
