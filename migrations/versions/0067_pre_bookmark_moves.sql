-- Values that bookmarks get when a run succeeds. See ports/bookmarks.py.
CREATE TABLE bookmark_moves (
    name text NOT NULL,                 -- of the bookmark, which need not exist yet
    run text NOT NULL,
    value text NOT NULL,
    revision bigint NOT NULL CHECK (revision >= 0),     -- that the run has read
    PRIMARY KEY (name, run)
);
