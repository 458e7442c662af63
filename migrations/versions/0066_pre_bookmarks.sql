-- Bookmarks: how far a watcher or a consumer has read a dataset. See ports/bookmarks.py.
CREATE TABLE bookmarks (
    name text PRIMARY KEY,
    value text NOT NULL,                -- of the reader's own format
    revision bigint NOT NULL CHECK (revision > 0),
    changed_at timestamptz NOT NULL
);
