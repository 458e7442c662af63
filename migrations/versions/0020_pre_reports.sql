-- How each shard is, told by its worker every two seconds; what is old says only how it was.
CREATE TABLE shard_reports (
    shard integer PRIMARY KEY,
    worker text NOT NULL,
    epoch bigint NOT NULL,                     -- of the worker's lease
    report jsonb NOT NULL,                     -- store.reports
    told_at timestamptz NOT NULL               -- by this database's clock
) WITH (fillfactor = 50);
