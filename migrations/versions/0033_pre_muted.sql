-- A rerun may be muted: the status of its runs is stored, and published to no schedule.
ALTER TABLE jobs ADD COLUMN muted boolean NOT NULL DEFAULT false;
ALTER TABLE runs ADD COLUMN muted boolean NOT NULL DEFAULT false;
