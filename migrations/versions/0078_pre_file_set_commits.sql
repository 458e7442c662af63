-- Commits of file sets on storages that cannot create a file only if it is absent. See ports/datasets/commits.py.
CREATE TABLE file_sets (
    dataset text PRIMARY KEY,           -- namespace.name
    location text NOT NULL,             -- URL of its folder: a dataset has one
    commits bigint NOT NULL CHECK (commits > 0)         -- the number of the last one; its lock orders the writers
);

CREATE TABLE file_set_commits (
    dataset text NOT NULL REFERENCES file_sets (dataset) ON DELETE CASCADE,
    number bigint NOT NULL CHECK (number > 0),          -- without gaps
    commit_id text NOT NULL,
    manifest text NOT NULL,             -- the file that names the data, relative to the location
    PRIMARY KEY (dataset, number),
    UNIQUE (dataset, commit_id)         -- a commit is visible once
);
