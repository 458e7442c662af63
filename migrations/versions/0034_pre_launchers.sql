-- A lease for each launcher process that executes runs inline. When it expires, another launcher takes its runs back.
CREATE TABLE launchers (
    runner text PRIMARY KEY,            -- host:pid:start-ticks, as in runs.runner
    since timestamptz NOT NULL,         -- since when the lease has been held without a gap
    expires_at timestamptz NOT NULL     -- by this server's clock
);
