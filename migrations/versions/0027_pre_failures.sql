-- How often in a row a waiting job could not be decided; the launcher tries it again later each time.
ALTER TABLE jobs ADD COLUMN failures integer NOT NULL DEFAULT 0;
