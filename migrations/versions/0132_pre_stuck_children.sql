-- `stuck`: the tasks among a node's children of which not all have counted what it reported; a function that relates
-- them has failed (ADR 193). They are counted anew, at `report_at` again.
ALTER TABLE graph_nodes ADD COLUMN IF NOT EXISTS stuck text[] NOT NULL DEFAULT '{}';
