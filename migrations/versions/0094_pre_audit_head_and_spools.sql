-- The last entry of the audit, kept beside it: an audit from whose end entries were removed, or all, is found. Number 0:
-- there was none yet.
CREATE TABLE audit_head (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    number bigint NOT NULL CHECK (number >= 0),
    hash bytea NOT NULL CHECK (octet_length(hash) = 32)
);
LOCK TABLE audit IN SHARE ROW EXCLUSIVE MODE;
INSERT INTO audit_head (number, hash)
SELECT coalesce(max(number), 0), coalesce((array_agg(hash ORDER BY number DESC))[1], decode(repeat('00', 32), 'hex'))
FROM audit;

-- It moves with each entry, and only so: an entry follows the last one.
CREATE FUNCTION move_audit_head() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE audit_head SET number = NEW.number, hash = NEW.hash
    WHERE number = NEW.number - 1 AND hash = NEW.previous;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'entry % of the audit does not follow the last one', NEW.number;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER audit_moves_head AFTER INSERT ON audit FOR EACH ROW EXECUTE FUNCTION move_audit_head();

CREATE FUNCTION check_audit_head() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.number = OLD.number + 1 AND EXISTS (
        SELECT FROM audit WHERE number = NEW.number AND hash = NEW.hash AND previous = OLD.hash
    ) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the head of the audit moves with its entries only';
END
$$;
CREATE TRIGGER audit_head_moves BEFORE UPDATE ON audit_head FOR EACH ROW EXECUTE FUNCTION check_audit_head();
CREATE TRIGGER audit_head_stays BEFORE DELETE OR TRUNCATE ON audit_head
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();
CREATE TRIGGER audit_not_emptied BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();

-- Lines that a launcher refused of the spool of a run, or of what lies outside the folder of a run (run is ''). The lines
-- themselves are in files beside the spool on that host.
CREATE TABLE refused_spool_lines (
    host text NOT NULL,
    run text NOT NULL,
    lines bigint NOT NULL CHECK (lines > 0),
    reason text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (host, run)
);
CREATE INDEX refused_spool_lines_by_time ON refused_spool_lines (at);
