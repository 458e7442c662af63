-- The number of partitions of lanes can be changed in operation (ADR 96). Owners share the partitions that have a row in
-- `task_partitions`; new lanes go to the first `partitions` of them.

CREATE TABLE task_layout (
    sole boolean PRIMARY KEY DEFAULT true CONSTRAINT task_layout_sole CHECK (sole),
    partitions integer NOT NULL CONSTRAINT task_layout_partitions CHECK (partitions BETWEEN 1 AND 256),
    wanted integer NOT NULL CONSTRAINT task_layout_wanted CHECK (wanted BETWEEN 1 AND 256),
    settled boolean NOT NULL                   -- whether all lanes are where new ones would go
);
INSERT INTO task_layout (partitions, wanted, settled) VALUES (16, 16, true);

-- The partition of a lane by its id, as `domain.tasks.identity.partition_of`.
CREATE FUNCTION task_partition_v1(lane text, partitions integer) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (('x' || left(lane, 8))::bit(32)::bigint % partitions)::integer
$$;

-- Wider than before, so every row keeps them.
ALTER TABLE task_partitions DROP CONSTRAINT task_partitions_number;
ALTER TABLE task_partitions ADD CONSTRAINT task_partitions_number CHECK (partition BETWEEN 0 AND 255) NOT VALID;
ALTER TABLE task_lanes DROP CONSTRAINT task_lanes_partition;
ALTER TABLE task_lanes ADD CONSTRAINT task_lanes_partition CHECK (partition BETWEEN 0 AND 255) NOT VALID;

-- What an owner reads. One of an earlier release shows nothing: it knows 16 partitions only.
ALTER TABLE task_owners ADD COLUMN reads integer NOT NULL DEFAULT 2;
