-- Few of many: those whose children are computed again.
CREATE INDEX CONCURRENTLY IF NOT EXISTS graph_nodes_stuck ON graph_nodes (report_at) WHERE stuck <> '{}';
