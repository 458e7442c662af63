-- `held`: a node that is ready while its schedule is paused or disabled waits without a job.
ALTER TABLE graph_nodes ADD COLUMN held boolean NOT NULL DEFAULT false;
CREATE INDEX graph_nodes_held ON graph_nodes (app, task, job_id) WHERE held AND state = 'WAITING';

-- Nodes that have ended, by the time of their end: the oldest leave first.
CREATE INDEX graph_nodes_ended ON graph_nodes (changed_at, app, task, job_id)
    WHERE state NOT IN ('WAITING', 'QUEUED') AND NOT unreported;

-- Ends that no node has counted yet: their jobs do not leave for the history.
CREATE INDEX node_ends_job ON node_ends (job);
