-- What people told a waiting job: force, cancel or hold; and who and why.
ALTER TABLE jobs ADD COLUMN told text;
ALTER TABLE jobs ADD COLUMN told_why text;
