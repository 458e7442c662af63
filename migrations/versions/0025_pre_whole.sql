-- An index refuses long texts, and a correlation key is any text, of any length: of a long one, `key` is the beginning
-- and a hash, and this is all of it. Releases that know nothing of this column go on with keys that are not long.
ALTER TABLE open_keys ADD COLUMN whole text;
