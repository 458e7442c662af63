-- Of a recurring task: missed ticks that were skipped, and ticks for which its app had no handler (ADR 190).
ALTER TABLE tasks ADD COLUMN skipped bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN unhandled bigint NOT NULL DEFAULT 0;
