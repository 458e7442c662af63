-- `report_at`: not before then do the children of a node count its state; a function that names them has failed.
ALTER TABLE graph_nodes ADD COLUMN report_at timestamptz NOT NULL DEFAULT '-infinity';
CREATE INDEX graph_nodes_to_report ON graph_nodes (report_at, changed_at) WHERE unreported;
