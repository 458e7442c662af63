-- Quotas: limits that an admin sets on a namespace. The locked row of a count makes changes of its namespace one after
-- another. See domain/quotas/quota.py.
CREATE TABLE quotas (
    namespace text NOT NULL,
    quota text NOT NULL CHECK (quota IN ('schedules', 'accumulations', 'runs', 'events_per_second', 'body_bytes')),
    most bigint NOT NULL CHECK (most >= 0),
    reason text NOT NULL DEFAULT '',    -- of the last change
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, quota)
);

-- The events that a namespace may still send: what no process of the API holds. See domain/quotas/event_level.py.
CREATE TABLE quota_levels (
    namespace text PRIMARY KEY,
    tokens double precision NOT NULL,   -- negative: a debt
    at timestamptz NOT NULL
);

-- What each process of the API holds of them, and how much it is asked for. Rewritten every second while events come.
CREATE TABLE quota_shares (
    namespace text NOT NULL,
    process text NOT NULL,
    tokens double precision NOT NULL,
    asked double precision NOT NULL,    -- events a second, accepted or not
    accepted double precision NOT NULL, -- events a second
    at timestamptz NOT NULL,
    PRIMARY KEY (namespace, process)
) WITH (fillfactor = 50);
