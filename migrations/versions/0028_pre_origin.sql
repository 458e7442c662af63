-- The file of the last deployment that named one, as `host:path`. A deployment from another file that would delete
-- schedules is shown as such before it is made.
ALTER TABLE apps ADD COLUMN origin text;
