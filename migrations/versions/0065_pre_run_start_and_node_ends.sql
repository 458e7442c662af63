-- How the process of a Python program was started: `warm`, or `cold: ` and the reason.
ALTER TABLE runs ADD COLUMN start text;

-- A function for each table: the former one made JSON of each ended run, its program and arguments included.
CREATE FUNCTION note_node_run_end_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO node_ends (job) SELECT job FROM graph_nodes WHERE job = NEW.job;
    IF FOUND THEN
        PERFORM pg_notify('graph', '');
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION note_node_job_end_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO node_ends (job) SELECT job FROM graph_nodes WHERE job = NEW.id;
    IF FOUND THEN
        PERFORM pg_notify('graph', '');
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER run_ended AFTER UPDATE OF state ON runs FOR EACH ROW
    WHEN (NEW.job IS NOT NULL AND NEW.state IN ('COMPLETED', 'FAILED', 'KILLED', 'LOST') AND OLD.state <> NEW.state)
    EXECUTE FUNCTION note_node_run_end_v1();
CREATE OR REPLACE TRIGGER job_ended AFTER UPDATE OF state ON jobs FOR EACH ROW
    WHEN (NEW.state IN ('ABORTED', 'TIMED_OUT', 'OBSOLETE', 'COALESCED', 'LAUNCH_FAILED') AND OLD.state <> NEW.state)
    EXECUTE FUNCTION note_node_job_end_v1();
