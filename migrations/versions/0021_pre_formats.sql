-- Releases that know nothing of these columns read and write version 2.
ALTER TABLE workers ADD COLUMN reads integer NOT NULL DEFAULT 2 CHECK (reads > 0);
-- The newest version that may have been written under the lease; it only grows.
ALTER TABLE leases ADD COLUMN format integer NOT NULL DEFAULT 2 CHECK (format > 0);
