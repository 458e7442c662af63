-- Wake-ups that folds asked for and that are still to come: one for each accumulation, the newest request.
-- No foreign key to schedules: checking it would take locks in another order than changes of a schedule do. A row of a
-- schedule that is gone does no harm, for what it sends finds nobody.
CREATE TABLE wakes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule text NOT NULL,
    cell bytea NOT NULL,                       -- UTF-8: a correlation key is any text, of any length
    generation bigint NOT NULL,
    at timestamptz NOT NULL,                   -- what the fold asked for, by the log's time
    due_at timestamptz NOT NULL,               -- when it is sent, by our time (domain.waking)
    CHECK (due_at >= at)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);  -- like the outbox: always dying
CREATE UNIQUE INDEX wakes_of_cell ON wakes (schedule, sha256(cell));  -- hashed: an index refuses long keys
CREATE INDEX wakes_due ON wakes (due_at);
