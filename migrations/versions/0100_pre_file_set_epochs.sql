-- The epochs of jobs that commit to file sets. See ports/datasets/commits.py.
CREATE TABLE file_set_epochs (
    dataset text NOT NULL,              -- namespace.name
    job text NOT NULL,                  -- its id; of a run without a job the run's
    attempt integer NOT NULL CHECK (attempt > 0),       -- the highest that has begun; earlier ones commit no more
    PRIMARY KEY (dataset, job)
);
