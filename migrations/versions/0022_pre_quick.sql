-- Runs that launchers execute within their own process wait apart from those that want one: neither looks through the other's.
CREATE INDEX runs_to_take ON runs (spawn_at) WHERE state = 'PENDING' AND executable ->> 'type' IN ('http', 'publish');
CREATE INDEX runs_to_give ON runs (spawn_at) WHERE state = 'PENDING' AND executable ->> 'type' NOT IN ('http', 'publish');
