-- Instances of apps that get Dapr jobs, with heartbeats of their endpoints: launchers deliver to those seen lately. ADR 83.
CREATE TABLE dapr_instances (
    queue text NOT NULL,                       -- of the app's jobs
    address text NOT NULL CONSTRAINT dapr_instances_address CHECK (length(address) BETWEEN 1 AND 2000),
    token text NOT NULL,                       -- sent to the app; '': none
    seen_at timestamptz NOT NULL,
    PRIMARY KEY (queue, address)
);
