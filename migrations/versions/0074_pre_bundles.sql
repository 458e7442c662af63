-- Bundles: folders of apps as tar archives, named by the SHA-256 of their content. See ports/programs/bundles.py.
CREATE TABLE IF NOT EXISTS bundles (
    namespace text NOT NULL,
    digest text NOT NULL CHECK (digest ~ '^[0-9a-f]{64}$'),
    bytes bigint NOT NULL CHECK (bytes >= 0),
    files integer NOT NULL CHECK (files >= 0),
    created_at timestamptz NOT NULL,
    used_at timestamptz NOT NULL,       -- of the latest upload or deployment; an unused one is removed long after
    PRIMARY KEY (namespace, digest)
);

CREATE INDEX IF NOT EXISTS bundles_by_use ON bundles (used_at);

-- Their content in order.
CREATE TABLE IF NOT EXISTS bundle_chunks (
    namespace text NOT NULL,
    digest text NOT NULL,
    number integer NOT NULL CHECK (number >= 0),
    content bytea NOT NULL,
    PRIMARY KEY (namespace, digest, number),
    FOREIGN KEY (namespace, digest) REFERENCES bundles (namespace, digest) ON DELETE CASCADE
);

-- The programs and active runs that refer to a bundle. Built beside the writers.
CREATE INDEX CONCURRENTLY IF NOT EXISTS programs_by_bundle ON programs ((definition ->> 'bundle'))
    WHERE definition ? 'bundle';
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_by_bundle ON runs ((executable ->> 'bundle'))
    WHERE executable ? 'bundle' AND state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED');
