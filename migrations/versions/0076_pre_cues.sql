-- How often a reader was given a cue that its dataset may have something new.
ALTER TABLE bookmarks ADD COLUMN cues bigint NOT NULL DEFAULT 0;
