-- Tasks of an app that depend on each other by job id. Edges are computed from the tasks and never stored.
CREATE TABLE graphs (
    app text PRIMARY KEY,
    generation bigint NOT NULL CHECK (generation > 0),
    tasks text NOT NULL,                -- JSON, whose order counts
    updated_at timestamptz NOT NULL
);

CREATE TABLE graph_nodes (
    app text NOT NULL REFERENCES graphs,
    task text NOT NULL,
    job_id text NOT NULL,
    state text NOT NULL CHECK (state IN ('WAITING', 'QUEUED', 'COMPLETED', 'FAILED', 'SKIPPED', 'UPSTREAM_FAILED',
        'UPSTREAM_SKIPPED')),
    reported text NOT NULL CHECK (reported IN ('missing', 'complete', 'failed', 'skipped')),  -- what its children have counted
    groups integer[] NOT NULL CHECK (cardinality(groups) % 4 = 0),  -- (group, missing, failed, skipped) for each group
    round integer NOT NULL CHECK (round >= 0),      -- number of its jobs
    again boolean NOT NULL,
    generation bigint NOT NULL,         -- of the graph by which its parents were counted
    job text UNIQUE,                    -- the latest
    reason text NOT NULL,
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    unreported boolean NOT NULL GENERATED ALWAYS AS (reported <> CASE state
        WHEN 'COMPLETED' THEN 'complete'
        WHEN 'FAILED' THEN 'failed' WHEN 'UPSTREAM_FAILED' THEN 'failed'
        WHEN 'SKIPPED' THEN 'skipped' WHEN 'UPSTREAM_SKIPPED' THEN 'skipped'
        ELSE 'missing' END) STORED,
    PRIMARY KEY (app, task, job_id),
    CHECK (state <> 'QUEUED' OR job IS NOT NULL)
);
CREATE INDEX graph_nodes_unreported ON graph_nodes (changed_at) WHERE unreported;
CREATE INDEX graph_nodes_generation ON graph_nodes (app, generation);
CREATE INDEX graph_nodes_state ON graph_nodes (app, task, state, job_id);

-- Jobs of nodes that may have ended. A row is deleted in the transaction that moves the node, so each end counts once.
CREATE TABLE node_ends (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    job text NOT NULL
);

CREATE FUNCTION note_node_end_v1() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ended text := CASE TG_TABLE_NAME WHEN 'runs' THEN to_jsonb(NEW) ->> 'job' ELSE NEW.id END;
BEGIN
    INSERT INTO node_ends (job) SELECT job FROM graph_nodes WHERE job = ended;
    IF FOUND THEN
        PERFORM pg_notify('graph', '');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER run_ended AFTER UPDATE OF state ON runs FOR EACH ROW
    WHEN (NEW.job IS NOT NULL AND NEW.state IN ('COMPLETED', 'FAILED', 'KILLED', 'LOST') AND OLD.state <> NEW.state)
    EXECUTE FUNCTION note_node_end_v1();
CREATE TRIGGER job_ended AFTER UPDATE OF state ON jobs FOR EACH ROW
    WHEN (NEW.state IN ('ABORTED', 'TIMED_OUT', 'OBSOLETE', 'COALESCED', 'LAUNCH_FAILED') AND OLD.state <> NEW.state)
    EXECUTE FUNCTION note_node_end_v1();
