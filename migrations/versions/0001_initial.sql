-- Schedules, jobs, runs, timers, tasks and history. Accumulations are not here: they are in the log's tables.
-- Times are timestamptz, written by the application's clock unless a default says otherwise.

-- Notifies the channel of that name when the transaction commits. A wake-up only: who listens also polls now and then.
CREATE FUNCTION notify_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(TG_ARGV[0], '');
    RETURN NULL;
END
$$;

-- What has ended moves out of the tables the launchers work on, into tables partitioned by time, whose partitions are
-- dropped when they are old. Why it is done so: ADR 18. Makes one partition; rows of its span that came before it and lie
-- in `<parent>_rest` move into it. Gives up when somebody holds those for more than a second.
CREATE FUNCTION make_one_part_v1(parent text, begins timestamptz, ends timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    since timestamp := begins AT TIME ZONE 'UTC';
    part  text := parent || to_char(since, CASE WHEN since = date_trunc('day', since) THEN '_YYYYMMDD' ELSE '_YYYYMMDDHH24' END);
    rest  text := parent || '_rest';
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, parent);
    IF to_regclass(quote_ident(rest)) IS NOT NULL THEN
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', rest);
        EXECUTE format('WITH early AS (DELETE FROM %I WHERE at >= %L AND at < %L RETURNING *) '
            'INSERT INTO %I SELECT * FROM early',
            rest, begins, ends, part);
    END IF;
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part, begins, ends);
END
$$;

-- Makes the partition of a span of a table partitioned by time, or where others have a part of it (of hours, when what is
-- kept was kept for a shorter time) what is between them: afterwards all of it has a partition. One at a time.
CREATE FUNCTION make_part_v1(parent text, begins timestamptz, ends timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    since timestamptz := begins;
    other record;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(parent, 0));
    FOR other IN
        SELECT * FROM (
            SELECT substring(bound FROM 'FROM \(''([^'']+)''\)')::timestamptz AS begins,
                substring(bound FROM 'TO \(''([^'']+)''\)')::timestamptz AS ends
            FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid,
                LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid) AS bound) AS b
            WHERE i.inhparent = parent::regclass
        ) AS part
        WHERE part.begins < make_part_v1.ends AND part.ends > make_part_v1.begins ORDER BY 1
    LOOP
        IF other.begins > since THEN
            PERFORM make_one_part_v1(parent, since, other.begins);
        END IF;
        since := greatest(since, other.ends);
    END LOOP;
    IF since < ends THEN
        PERFORM make_one_part_v1(parent, since, ends);
    END IF;
END
$$;

-- Drops the oldest partition that ends by then; its name, '' when there is none, NULL when somebody reads or writes the
-- table just now. One for each transaction, and a short wait: who works on the table waits behind us.
CREATE FUNCTION drop_part_v1(parent text, before timestamptz) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    part text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(parent, 0));
    SELECT c.relname INTO part FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = parent::regclass
        AND substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([^'']+)''\)')::timestamptz <= before
    ORDER BY c.relname LIMIT 1;
    IF part IS NULL THEN
        RETURN '';
    END IF;
    PERFORM set_config('lock_timeout', '200ms', true);
    BEGIN
        EXECUTE format('DROP TABLE %I', part);
    EXCEPTION WHEN lock_not_available THEN
        RETURN NULL;
    END;
    RETURN part;
END
$$;

-- The partition of a lane by its id, as `domain.tasks.identity.partition_of`.
CREATE FUNCTION task_partition_v1(lane text, partitions integer) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (('x' || left(lane, 8))::bit(32)::bigint % partitions)::integer
$$;

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

CREATE FUNCTION refuse_change_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit is append-only';
END
$$;

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

-- Only entries go that were kept for their time: up to the start.
CREATE FUNCTION keep_audit_from_start() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.number > (SELECT number FROM audit_start) THEN
        RAISE EXCEPTION 'the audit is append-only';
    END IF;
    RETURN OLD;
END
$$;

-- The start moves forward, to an entry, when the last entry says so.
CREATE FUNCTION check_audit_start() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.number > OLD.number AND EXISTS (SELECT FROM audit WHERE number = NEW.number AND hash = NEW.hash) AND EXISTS (
        SELECT FROM audit a JOIN audit_head h ON h.number = a.number
        WHERE a.action = 'forget' AND a.detail ->> 'upto' = NEW.number::text
    ) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the start of the audit moves with an entry about it only';
END
$$;

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

CREATE TABLE namespaces (
    name text PRIMARY KEY,
    created_at timestamptz NOT NULL
);

CREATE TABLE apps (
    id text PRIMARY KEY,                       -- namespace.app
    namespace text NOT NULL REFERENCES namespaces (name),
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    -- The file of the last deployment that named one, as `host:path`. A deployment from another file that would delete
    -- schedules is shown as such before it is made.
    origin text,
    -- The highest generation of its deleted schedules whose rows are gone. A new schedule begins after it, so that a name
    -- that is used again has no generation twice.
    forgotten_generation bigint NOT NULL DEFAULT 0
);

CREATE TABLE programs (
    id text PRIMARY KEY,                       -- namespace.app.program
    app text NOT NULL REFERENCES apps (id),
    definition jsonb NOT NULL,                 -- codec.schedule: Program
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);
CREATE INDEX programs_by_app ON programs (app);
-- The programs and active runs that refer to a bundle.
CREATE INDEX programs_by_bundle ON programs ((definition ->> 'bundle'))
    WHERE definition ? 'bundle';
-- The programs that name a profile.
CREATE INDEX programs_by_profile ON programs ((definition ->> 'profile')) WHERE definition ? 'profile';

CREATE TABLE schedules (
    id text PRIMARY KEY,                       -- namespace.app.schedule
    app text NOT NULL REFERENCES apps (id),
    program text NOT NULL,                     -- no foreign key: a tombstone may outlive its program
    definition jsonb NOT NULL,                 -- codec.schedule: Schedule
    -- Every change bumps it; a tombstone keeps it, and when that goes, `apps.forgotten_generation`: never reused.
    generation bigint NOT NULL CHECK (generation > 0),
    enabled boolean NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz,
    -- A change may keep what the generation before it had: `kept_in` is the generation for which `kept_from` was
    -- written.
    kept_in bigint,
    kept_from bigint,
    -- Jobs of this generation and later may run; of a disabled schedule none may, unless its pause keeps.
    oldest_valid_generation bigint NOT NULL GENERATED ALWAYS AS (
        CASE WHEN kept_in = generation THEN kept_from WHEN enabled THEN generation ELSE generation + 1 END) STORED,
    -- The pool a schedule starts its runs in, and its priority there: what its definition says, and what was set
    -- online.
    pool text GENERATED ALWAYS AS (
        jsonb_path_query_first(definition, '$.constraints[*] ? (@.type == "POOL").pool') #>> '{}') STORED,
    priority integer GENERATED ALWAYS AS (
        jsonb_path_query_first(definition, '$.constraints[*] ? (@.type == "POOL").priority')::integer) STORED,
    priority_set integer CHECK (priority_set BETWEEN -1000 AND 1000),
    draining_in bigint,                        -- the generation that drains
    -- When a pause that held waiting jobs last ended; timeouts count from then.
    resumed_at timestamptz,
    -- The hash of the event key at whose home it lives in the log; NULL: at the home of its own name.
    affinity bigint CHECK (affinity BETWEEN 0 AND 4294967295),
    -- Waiting jobs may run.
    admits boolean NOT NULL GENERATED ALWAYS AS (enabled OR coalesce(draining_in = generation, false)) STORED,
    CHECK (deleted_at IS NULL OR NOT enabled),
    CONSTRAINT schedules_kept CHECK ((kept_in IS NULL) = (kept_from IS NULL))
);
CREATE INDEX schedules_by_app ON schedules (app, id);
CREATE INDEX schedules_by_program ON schedules (program) WHERE deleted_at IS NULL;
CREATE INDEX schedules_by_affinity ON schedules (affinity) WHERE deleted_at IS NULL AND affinity IS NOT NULL;
CREATE INDEX schedules_to_forget ON schedules (deleted_at, id) WHERE deleted_at IS NOT NULL;
-- Which schedules wait for a program: asked when one is removed. `definition` is codec.schedule's, its trigger CDAP's.
CREATE INDEX schedules_by_awaited_program ON schedules
    USING gin (jsonb_path_query_array(definition, '$.trigger.**.programId') jsonb_path_ops) WHERE deleted_at IS NULL;
-- Schedules that join ends of programs per run of an ancestor: a deployment says which of them it breaks.
CREATE INDEX schedules_joining ON schedules (id)
    WHERE deleted_at IS NULL AND jsonb_path_exists(definition, '$.trigger.**.runOf');

-- Records to append to the log, written in the transaction of the change they are about. The relay appends what it
-- sees, oldest id first, and deletes it; the ids it appended last travel in the log beside the records (ADR 3),
-- because ids of concurrent transactions do not become visible in their order. A row that is gone has been
-- acknowledged.
CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic text NOT NULL,
    key text NOT NULL,                         -- its home decides the partition
    value bytea,
    created_at timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);  -- a queue: small, and always dying
CREATE TRIGGER outbox_written AFTER INSERT ON outbox FOR EACH STATEMENT EXECUTE FUNCTION notify_v1('outbox');

-- The next tick of each time leaf of each enabled schedule.
CREATE TABLE timers (
    schedule text NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    leaf text NOT NULL,                        -- domain.trigger.leaf_id
    generation bigint NOT NULL,
    due_at timestamptz NOT NULL,
    -- While missed ticks are spread, a timer is due later than the tick it stands for.
    tick_at timestamptz,                       -- NULL: due_at is the tick's own time
    PRIMARY KEY (schedule, leaf)
);
CREATE INDEX timers_due ON timers (due_at);

-- Who owns which shard (or role such as the relay). Fencing in the log makes a wrong lease harmless.
CREATE TABLE leases (
    name text PRIMARY KEY,
    owner text NOT NULL,
    epoch bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    wanted_by text,                            -- graceful handover: who should get it next
    -- The newest version that may have been written under the lease; it only grows.
    format integer NOT NULL DEFAULT 3 CHECK (format > 0)
);

CREATE TABLE workers (
    id text PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    seen_at timestamptz NOT NULL,
    -- The newest version of the log's state that it reads.
    reads integer NOT NULL DEFAULT 3 CHECK (reads > 0)
);

-- How far an intake has read a partition of the log, stored in the transaction that stores what it read.
CREATE TABLE intake_positions (
    topic text NOT NULL,
    partition integer NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (topic, partition)
);

-- A satisfied schedule, waiting or launched. The id is a function of its three parts, so a repeat finds the first.
-- Waiting jobs change under their program's row lock alone; ready ones (their run is PENDING) when a runner claims the
-- run.
CREATE TABLE jobs (
    id text PRIMARY KEY,
    schedule text,
    generation bigint NOT NULL,
    sequence bigint NOT NULL,
    program text,                              -- NULL: the schedule was unknown when the job came in
    state text NOT NULL CHECK (state IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH', 'LAUNCHED', 'ABORTED', 'TIMED_OUT',
        'OBSOLETE', 'COALESCED', 'LAUNCH_FAILED')),
    reason text NOT NULL DEFAULT '',           -- why it is in this state, for people
    satisfied_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    next_check_at timestamptz,                 -- when the launcher looks again ('epoch': at once); NULL: when woken
    waiting jsonb,                             -- the verdicts of the last check; NULL: never had to wait
    checked_at timestamptz,                    -- when that was
    ready jsonb NOT NULL,                      -- codec.launch: ReadyJob; those who joined are merged in at admission
    joined text REFERENCES jobs (id),          -- COALESCED: the job it joined
    ended_at timestamptz,
    command text,                              -- what people want of a waiting job: force, cancel or hold
    command_reason text,                       -- who, and why
    missed text[],                             -- deadlines that it has missed, for people; NULL: none
    -- When a check found that no end of a run can let the job go. While that is its last check, no end of a run wakes
    -- it.
    spared_at timestamptz,
    -- How often in a row it could not be decided; each time the launcher waits longer.
    failures integer NOT NULL DEFAULT 0,
    -- It comes from a person, not from a trigger. Its id is made of the schedule, or of the program when no schedule
    -- was named, and of the request's idempotency key.
    submitted boolean NOT NULL DEFAULT false,
    -- Of a rerun: the status of its runs is stored, and published to no schedule.
    muted boolean NOT NULL DEFAULT false,
    backfill text,                             -- `satisfied_at` is then its place among waiting jobs: after all others
    -- Spans (ADR 18). A process that makes spans says so in its sessions (`streamsched.spans`, store/connections.py).
    -- Rows that it inserts have spans that are due when the row has ended; rows of other processes have none, and are
    -- in no index.
    spans text DEFAULT CASE WHEN current_setting('streamsched.spans', true) = 'on' THEN 'due' END,
    -- From which jobs of which programs a job descends, by digests (codec.events.ancestors); NULL: from none.
    ancestors jsonb,
    CHECK ((ended_at IS NOT NULL) = (state NOT IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH'))),
    CHECK ((joined IS NOT NULL) = (state = 'COALESCED')),
    CHECK (program IS NOT NULL OR state = 'OBSOLETE'),
    CHECK (next_check_at IS NULL OR state = 'PENDING_CONSTRAINT'),
    CONSTRAINT jobs_owner CHECK (schedule IS NOT NULL OR (submitted AND program IS NOT NULL)),
    CONSTRAINT jobs_id CHECK (CASE WHEN submitted
        THEN starts_with(id, coalesce(schedule, program) || '.')
        ELSE id = schedule || '.' || generation || '.' || sequence END),
    CONSTRAINT jobs_spans CHECK (spans IN ('due', 'sent', 'dropped'))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX jobs_due ON jobs (next_check_at, program) WHERE state = 'PENDING_CONSTRAINT';
CREATE INDEX jobs_waiting_by_program ON jobs (program, satisfied_at, sequence, next_check_at)
    WHERE state = 'PENDING_CONSTRAINT';
CREATE INDEX jobs_waiting_by_schedule ON jobs (schedule) WHERE state IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH');
CREATE INDEX jobs_joined ON jobs (joined) WHERE joined IS NOT NULL;
CREATE INDEX jobs_recent ON jobs (created_at DESC, id DESC);
CREATE INDEX jobs_of_schedule ON jobs (schedule, created_at DESC, id DESC);
-- Waiting jobs that the end of a run of their program may let go and that have not been woken yet, longest satisfied
-- first. How few they are the planner cannot know, and would take the index of all that wait: hence an expression that
-- only this one has (no waiting job is without a program).
CREATE INDEX jobs_heeding_runs ON jobs (coalesce(program, ''), satisfied_at, sequence)
    WHERE state = 'PENDING_CONSTRAINT' AND next_check_at IS DISTINCT FROM timestamptz 'epoch'
        AND spared_at IS DISTINCT FROM checked_at;
CREATE TRIGGER job_ended AFTER UPDATE OF state ON jobs FOR EACH ROW
    WHEN (NEW.state IN ('ABORTED', 'TIMED_OUT', 'OBSOLETE', 'COALESCED', 'LAUNCH_FAILED') AND OLD.state <> NEW.state)
    EXECUTE FUNCTION note_node_job_end_v1();
CREATE INDEX jobs_spans_due ON jobs (ended_at) WHERE spans = 'due' AND ended_at IS NOT NULL;
-- The jobs that descend from one: only those of programs that programs started have an entry.
CREATE INDEX jobs_by_ancestor ON jobs USING gin (ancestors jsonb_path_ops)
    WITH (fastupdate = off) WHERE ancestors IS NOT NULL;

CREATE TABLE runs (
    id text PRIMARY KEY,                       -- job.r<attempt>; by hand: program.manual-<token>.r1
    job text REFERENCES jobs (id),             -- NULL: started by hand
    attempt integer NOT NULL CHECK (attempt > 0),
    program text NOT NULL,
    executable jsonb NOT NULL,                 -- codec.schedule: the Program as it was when the run was made
    arguments jsonb NOT NULL,
    state text NOT NULL CHECK (state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED', 'COMPLETED', 'FAILED', 'KILLED',
        'LOST')),
    reason text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    ended_at timestamptz,
    exit_code integer,
    spawns integer NOT NULL DEFAULT 0,         -- runner processes started for it so far
    spawn_at timestamptz,                      -- PENDING: when the next one is started ('epoch': at once)
    runner text,                               -- host:pid:start-ticks of the process that executes it
    heartbeat_at timestamptz,
    stop_requested text,                       -- who wants it killed and why; its runner obeys at the next heartbeat
    log_path text,
    stop_at_once boolean NOT NULL DEFAULT false, -- it is killed without a warning
    deadline_at timestamptz,                   -- when it has to be done
    muted boolean NOT NULL DEFAULT false,
    -- How its process was started: `warm`, `prepared`, or `cold: ` and the reason.
    start text,
    driver jsonb,                              -- the one that a cluster has for it: {"id", "master", "logs"}
    -- Claimed after the end of another runner, which may have submitted a driver.
    taken_over boolean NOT NULL DEFAULT false,
    -- Codec/views/run_metrics.py; not indexed, so that heartbeats stay cheap updates.
    metrics jsonb,
    spans text DEFAULT CASE WHEN current_setting('streamsched.spans', true) = 'on' THEN 'due' END,
    failure text,                              -- its class: domain.jobs.failure; NULL of runs that did not fail
    -- Room for the processes of runs, shared by namespaces, pools and priorities: domain/constraints/process_room.py.
    pool text,
    -- Its place in the order of its namespace and pool; NULL: when it was created.
    turn_at timestamptz,
    commits jsonb,                             -- by dataset and commit
    fence text,                                -- of a run that was given up: what is known about later commits
    fence_at timestamptz,                      -- when its fence is to be written next
    fence_tries integer NOT NULL DEFAULT 0,
    CHECK ((ended_at IS NOT NULL) = (state IN ('COMPLETED', 'FAILED', 'KILLED', 'LOST'))),
    CHECK ((spawn_at IS NOT NULL) = (state = 'PENDING')),
    CHECK (runner IS NOT NULL OR state NOT IN ('STARTING', 'RUNNING', 'SUSPENDED', 'COMPLETED', 'LOST')),
    UNIQUE (job, attempt),
    CONSTRAINT runs_spans CHECK (spans IN ('due', 'sent', 'dropped'))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
-- One job, one live or successful run: whatever races, the database refuses a second.
CREATE UNIQUE INDEX runs_one_per_job ON runs (job) WHERE state NOT IN ('FAILED', 'KILLED', 'LOST');
CREATE INDEX runs_active_by_program ON runs (program, created_at)
    WHERE state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED');
CREATE INDEX runs_to_spawn ON runs (spawn_at) WHERE state = 'PENDING';
CREATE INDEX runs_beating ON runs (heartbeat_at) WHERE state IN ('STARTING', 'RUNNING', 'SUSPENDED');
CREATE INDEX runs_completed_by_program ON runs (program, ended_at DESC) WHERE state = 'COMPLETED';
CREATE INDEX runs_recent ON runs (created_at DESC, id DESC);
-- When the newest runs of a program were made, for rates.
CREATE INDEX runs_by_program ON runs (program, created_at DESC);
CREATE INDEX runs_condemned ON runs (id) WHERE state = 'PENDING' AND stop_requested IS NOT NULL;
CREATE INDEX runs_overdue ON runs (deadline_at)
    WHERE deadline_at IS NOT NULL AND stop_requested IS NULL AND state IN ('STARTING', 'RUNNING', 'SUSPENDED');
-- Runs that launchers execute within their own process wait apart from those that need one: neither reads the other's.
CREATE INDEX runs_to_take_inline ON runs (spawn_at)
    WHERE state = 'PENDING' AND executable ->> 'type' IN ('http', 'publish', 'enqueue');
CREATE INDEX runs_to_give_runner ON runs (spawn_at)
    WHERE state = 'PENDING' AND executable ->> 'type' NOT IN ('http', 'publish', 'enqueue');
CREATE INDEX runs_inline_of_runner ON runs (runner)
    WHERE runner IS NOT NULL AND state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')
        AND executable ->> 'type' IN ('http', 'publish', 'enqueue');
CREATE TRIGGER run_ended AFTER UPDATE OF state ON runs FOR EACH ROW
    WHEN (NEW.job IS NOT NULL AND NEW.state IN ('COMPLETED', 'FAILED', 'KILLED', 'LOST') AND OLD.state <> NEW.state)
    EXECUTE FUNCTION note_node_run_end_v1();
CREATE INDEX runs_by_bundle ON runs ((executable ->> 'bundle'))
    WHERE executable ? 'bundle' AND state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED');
-- Runs that failed, were killed or lost, newest first: they are looked for among all others, which are many more.
CREATE INDEX runs_unsuccessful ON runs (created_at DESC, id DESC, state)
    WHERE state IN ('FAILED', 'KILLED', 'LOST');
CREATE INDEX runs_unsuccessful_of_program ON runs (program, created_at DESC, id DESC, state)
    WHERE state IN ('FAILED', 'KILLED', 'LOST');
CREATE INDEX runs_spans_due ON runs (ended_at) WHERE spans = 'due' AND ended_at IS NOT NULL;
-- Runs that need a process, by its kind, namespace and pool: those that wait for one in their order, and those that
-- have or are being given one.
CREATE INDEX runs_wait_for_room ON runs (
    (CASE WHEN executable ->> 'deploy_mode' = 'cluster' THEN 'cluster' ELSE 'host' END),
    split_part(program, '.', 1), coalesce(pool, ''), coalesce(turn_at, created_at), id, spawn_at
) WHERE state = 'PENDING' AND executable ->> 'type' NOT IN ('http', 'publish', 'enqueue') AND spawn_at < 'infinity';
CREATE INDEX runs_in_room ON runs (
    (CASE WHEN executable ->> 'deploy_mode' = 'cluster' THEN 'cluster' ELSE 'host' END),
    split_part(program, '.', 1), coalesce(pool, '')
) WHERE state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED') AND executable ->> 'type' NOT IN ('http', 'publish', 'enqueue')
    AND (state <> 'PENDING' OR spawns > 0);
CREATE INDEX runs_to_fence ON runs (fence_at) WHERE fence_at IS NOT NULL;

-- The accumulations, copied from the triggers changelog ("3 of 4").
CREATE TABLE trigger_progress (
    schedule text PRIMARY KEY,
    generation bigint NOT NULL,
    sequence bigint NOT NULL,
    progress jsonb NOT NULL,                   -- domain.explain tree
    updated_at timestamptz NOT NULL
);

-- Named groups of slots that runs of any program share.
CREATE TABLE groups (
    name text PRIMARY KEY,
    slots integer CHECK (slots >= 0),          -- the limit set online; NULL: each schedule's own counts
    changed_at timestamptz,                    -- when that was set
    -- A pool is a group named `pool:<name>`, so its places are freed as slots are. Of a pool: what a point of priority
    -- is worth, in seconds; NULL: a minute.
    age_s double precision CHECK (age_s >= 0)
);

-- What non-terminal runs hold: a row goes with the end of its run. Taken and freed under the group's row lock.
CREATE TABLE group_slots (
    group_name text NOT NULL REFERENCES groups (name),
    run text NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    weight integer NOT NULL CHECK (weight > 0),
    PRIMARY KEY (run, group_name)
);
CREATE INDEX group_slots_by_group ON group_slots (group_name);

-- Who is woken when slots become free: the jobs whose last ruling was to wait for them.
CREATE TABLE group_waits (
    group_name text NOT NULL REFERENCES groups (name),
    job text NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    satisfied_at timestamptz NOT NULL,
    -- What a job waits for in a group's queue, so that a slot that becomes free wakes those it is enough for, as many
    -- as there are slots, and no others. NULL: any slot wakes it.
    weight integer,
    max_slots integer,                         -- its schedule's own limit of the group
    -- Nothing but slots of groups holds it: the end of a run of its program alone does not help.
    slots_only boolean NOT NULL DEFAULT false,
    PRIMARY KEY (job, group_name)
);
CREATE INDEX group_waits_in_order ON group_waits (group_name, satisfied_at, job);

-- What became of each event, copied from topic `verdicts`; a partition for each day (UTC), dropped when it is old.
CREATE TABLE verdicts (
    at timestamptz NOT NULL,                   -- when it was found, by the log
    event text NOT NULL,
    source text NOT NULL,                      -- '' when a dead letter did not say
    verdict text NOT NULL,
    -- The schedule whose verdict it is; else the event key; else topic/partition/offset.
    subject text NOT NULL,
    generation bigint,                         -- of the schedule's definition, 0 when it was gone
    next_job bigint,                           -- the schedule's next job at that moment
    leaves text[],                             -- those it counted in
    cells text[],                              -- the correlation keys it counted under
    late text,                                 -- the policy that was applied when it came late
    since timestamptz,                         -- a repeat: when it was seen first; late: when it happened
    path text,                                 -- a dead letter: where in it
    reason text,                               -- and what is wrong there
    -- One sentence more: why it was refused, or which keys were dropped for it.
    why text,
    CHECK ((reason IS NOT NULL) = (verdict = 'dead_lettered')),
    CONSTRAINT verdicts_verdict_known CHECK (verdict IN ('counted', 'replaced', 'correction', 'unmatched', 'duplicate',
        'late', 'no_listener', 'disabled', 'refused', 'parked', 'dead_lettered')),
    CONSTRAINT verdicts_of_schedules CHECK ((generation IS NOT NULL)
        = (verdict IN ('counted', 'replaced', 'correction', 'unmatched', 'late', 'disabled', 'refused', 'parked')))
) PARTITION BY RANGE (at);
-- By a hash of the id: eight bytes whatever the id, and ids of any length.
CREATE INDEX verdicts_of_event ON verdicts (hashtextextended(event, 0));

-- How often each verdict was given at all, by whom: kept when the days are dropped, until its schedule is forgotten.
CREATE TABLE verdict_totals (
    subject text NOT NULL,                     -- the schedule; '*' all forgotten ones; '' those no schedule gave
    verdict text NOT NULL,
    late text NOT NULL,                        -- the policy that was applied when they came late, else ''
    total bigint NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (subject, verdict, late)
) WITH (fillfactor = 50);

-- Wake-ups that folds asked for and that are still to come: one for each accumulation, the newest request.
-- No foreign key to schedules: checking it would take locks in another order than changes of a schedule do. A row of a
-- schedule that is gone does no harm: what it sends has no receiver.
CREATE TABLE wakes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule text NOT NULL,
    cell bytea NOT NULL,                       -- UTF-8: a correlation key is any text, of any length
    generation bigint NOT NULL,
    at timestamptz NOT NULL,                   -- what the fold asked for, by the log's time
    due_at timestamptz NOT NULL,               -- when it is sent, by our time (domain.waking)
    CHECK (due_at >= at)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);  -- like the outbox: always dying
CREATE UNIQUE INDEX wakes_of_cell ON wakes (schedule, sha256(cell));  -- hashed: an index refuses long keys
CREATE INDEX wakes_due ON wakes (due_at);

-- How and until when a schedule is paused. A row of another generation than the schedule's says nothing any more.
CREATE TABLE pauses (
    schedule text PRIMARY KEY REFERENCES schedules (id) ON DELETE CASCADE,
    generation bigint NOT NULL,
    mode text NOT NULL CHECK (mode IN ('keep', 'drop', 'drain', 'backlog')),
    until timestamptz,                         -- NULL: until somebody resumes it
    note text NOT NULL DEFAULT ''
);
CREATE INDEX pauses_ending ON pauses (until) WHERE until IS NOT NULL;

-- How much of a shared pace is left; a row comes into being with its first use.
CREATE TABLE buckets (
    name text PRIMARY KEY,
    remaining double precision NOT NULL,
    at timestamptz NOT NULL
);

-- The open keys of schedules that correlate, as their homes keep them.
CREATE TABLE open_keys (
    schedule text NOT NULL,
    key text NOT NULL,
    generation bigint NOT NULL,
    state jsonb NOT NULL,                      -- codec.state: one open key
    updated_at timestamptz NOT NULL,
    -- An index refuses long texts, and a correlation key is any text, of any length: of a long one, `key` is the
    -- beginning and a hash, and this is all of it.
    whole text,
    PRIMARY KEY (schedule, key)
);

-- What is left of rates: a token bucket for each scope (a program, schedule, key of one, or group) under each rate.
CREATE TABLE meters (
    scope text NOT NULL,
    max_runs integer NOT NULL CHECK (max_runs > 0),
    per interval NOT NULL,
    burst integer NOT NULL CHECK (burst > 0),
    -- Tokens at that time; below nothing when runs were launched all the same.
    remaining double precision NOT NULL,
    at timestamptz NOT NULL,
    full_at timestamptz NOT NULL,              -- when it is full again if nobody takes of it
    PRIMARY KEY (scope, max_runs, per, burst)
);
CREATE INDEX meters_full ON meters (full_at);

-- Why schedules are in error, and how many signals wait in each: a copy of their shards' rows, as trigger_progress is.
CREATE TABLE schedule_halts (
    schedule text PRIMARY KEY,
    halt jsonb NOT NULL,                       -- codec.halt
    updated_at timestamptz NOT NULL            -- of the row in the log
);

-- Jobs that have ended, with all their runs. `record` is the row as it was: a column that is new since then is NULL.
CREATE TABLE jobs_history (
    done_at timestamptz NOT NULL,              -- the end of the job and of the last of its runs
    id text NOT NULL,
    schedule text,
    state text NOT NULL,
    created_at timestamptz NOT NULL,
    runs text[] NOT NULL,                      -- first attempt first
    record jsonb NOT NULL
) PARTITION BY RANGE (done_at);
CREATE INDEX jobs_history_by_id ON jobs_history (id);
CREATE INDEX jobs_history_recent ON jobs_history (created_at DESC, id DESC);
CREATE INDEX jobs_history_of_schedule ON jobs_history (schedule, created_at DESC, id DESC);

CREATE TABLE runs_history (
    done_at timestamptz NOT NULL,              -- its job's, so that both go together; by hand: its own end
    id text NOT NULL,
    program text NOT NULL,
    schedule text,                             -- NULL: started by hand
    state text NOT NULL,
    created_at timestamptz NOT NULL,
    record jsonb NOT NULL
) PARTITION BY RANGE (done_at);
CREATE INDEX runs_history_by_id ON runs_history (id);
CREATE INDEX runs_history_recent ON runs_history (created_at DESC, id DESC);
CREATE INDEX runs_history_of_program ON runs_history (program, created_at DESC, id DESC);
CREATE INDEX runs_history_unsuccessful ON runs_history (created_at DESC, id DESC, state)
    WHERE state IN ('FAILED', 'KILLED', 'LOST');
CREATE INDEX runs_history_unsuccessful_of_program
    ON runs_history (program, created_at DESC, id DESC, state) WHERE state IN ('FAILED', 'KILLED', 'LOST');

-- How far a schedule's jobs have left `jobs`. Its jobs come in order, so one that is not in `jobs` and not above this
-- was there before: a repeat of it from the log finds nothing, and must not begin again. A row goes with its schedule.
CREATE TABLE jobs_spent (
    schedule text PRIMARY KEY,
    generation bigint NOT NULL,
    sequence bigint NOT NULL
);

CREATE SEQUENCE decisions_ids;

CREATE TABLE decisions (
    id bigint NOT NULL DEFAULT nextval('decisions_ids'),
    at timestamptz NOT NULL,
    subject_kind text NOT NULL,
    subject text NOT NULL,
    action text NOT NULL,
    reason text NOT NULL DEFAULT '',
    detail jsonb,
    CONSTRAINT decisions_subject_kind_check CHECK (subject_kind IN
        ('app', 'program', 'schedule', 'job', 'run', 'group', 'namespace', 'queue', 'task', 'expectation'))
) PARTITION BY LIST (subject_kind);
ALTER SEQUENCE decisions_ids OWNED BY decisions.id;
CREATE INDEX decisions_of_subject ON decisions (subject, id);

CREATE TABLE work_decisions PARTITION OF decisions FOR VALUES IN ('job', 'run') PARTITION BY RANGE (at);

CREATE TABLE audit_decisions PARTITION OF decisions DEFAULT PARTITION BY RANGE (at);

CREATE TABLE work_decisions_rest PARTITION OF work_decisions DEFAULT;

CREATE TABLE audit_decisions_rest PARTITION OF audit_decisions DEFAULT;

SELECT make_part_v1('work_decisions', day AT TIME ZONE 'UTC', (day + interval '1 day') AT TIME ZONE 'UTC')
FROM generate_series(date_trunc('day', now() AT TIME ZONE 'UTC'), date_trunc('day', now() AT TIME ZONE 'UTC')
    + interval '3 days', interval '1 day') AS day;

SELECT make_part_v1('audit_decisions', month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC')
FROM generate_series(date_trunc('month', now() AT TIME ZONE 'UTC'), date_trunc('month', now() AT TIME ZONE 'UTC')
    + interval '1 month', interval '1 month') AS month;

-- Jobs that nothing but a place could hold back: those that just came, and those that wait for one by a decision. The
-- row of a job that ended, or whose schedule left the pool, says nothing any more.
CREATE TABLE lines (
    job text PRIMARY KEY,
    pool text NOT NULL,
    turn_at timestamptz NOT NULL,              -- when it was satisfied, less its head start by priority
    sequence bigint NOT NULL
);
CREATE INDEX lines_in_order ON lines (pool, turn_at, sequence, job);

-- Deadlines that are still to come: a row goes when its time has come and what was to be done then is done, in one
-- transaction; one that is kept says nothing before. It says what was promised when the job was satisfied.
CREATE TABLE deadlines (
    job text NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    run text NOT NULL,                         -- of a duration the run it is about, else ''
    place smallint NOT NULL,                   -- among the deadlines of the schedule
    due_at timestamptz NOT NULL,
    said jsonb NOT NULL,                       -- codec.deadline
    PRIMARY KEY (job, run, place)
);
CREATE INDEX deadlines_due ON deadlines (due_at);

-- Schedules whose runs failed too often in a row: paused by the launchers unless they have been changed since.
CREATE TABLE breaks (
    schedule text PRIMARY KEY REFERENCES schedules (id) ON DELETE CASCADE,
    generation bigint NOT NULL,                -- the one whose runs failed
    at timestamptz NOT NULL,
    keep boolean NOT NULL,
    until timestamptz,                         -- NULL: until somebody resumes it
    note text NOT NULL
);

-- What clusters say of their load, asked for while jobs wait for it.
CREATE TABLE clusters (
    name text PRIMARY KEY,
    reading jsonb,                             -- codec.constraint: the last one; NULL: none yet
    at timestamptz,                            -- when it was taken
    failed text,                               -- why the probe brings nothing
    failing timestamptz,                       -- since when
    asked_until timestamptz NOT NULL DEFAULT 'epoch' -- somebody is asking, or has just failed to
);

-- A gate for each set of terms, as the readings so far have left it.
CREATE TABLE gates (
    cluster text NOT NULL REFERENCES clusters (name),
    terms jsonb NOT NULL,                      -- codec.constraint: the LOAD constraint
    open boolean NOT NULL DEFAULT false,
    since timestamptz,                         -- when it opened or shut; NULL: it never saw a reading
    at timestamptz,                            -- of the reading it stands by
    started integer NOT NULL DEFAULT 0,        -- runs that reading let start
    PRIMARY KEY (cluster, terms)
);

-- Who is woken when a gate lets one through: the jobs whose last ruling was to wait for it.
CREATE TABLE gate_waits (
    job text PRIMARY KEY,
    cluster text NOT NULL,
    terms jsonb NOT NULL,
    satisfied_at timestamptz NOT NULL
);
CREATE INDEX gate_waits_in_order ON gate_waits (cluster, terms, satisfied_at, job);

-- The state of each shard, reported by its worker every two seconds.
CREATE TABLE shard_reports (
    shard integer PRIMARY KEY,
    worker text NOT NULL,
    epoch bigint NOT NULL,                     -- of the worker's lease
    report jsonb NOT NULL,                     -- store.reports
    reported_at timestamptz NOT NULL           -- by this database's clock
) WITH (fillfactor = 50);

-- The waiting jobs of each lane: those of a schedule, or of one key of it, of which so many run at a time. The row of a
-- job that ended says nothing any more.
CREATE TABLE lane_waits (
    job text NOT NULL,
    schedule text NOT NULL,
    scope text NOT NULL CONSTRAINT lane_waits_scope CHECK (scope IN ('schedule', 'key')),
    -- MD5 of the key, which may be longer than an index entry; '' for a schedule.
    key_hash text NOT NULL,
    satisfied_at timestamptz NOT NULL,
    sequence bigint NOT NULL,
    PRIMARY KEY (job, scope)
);
CREATE INDEX lane_waits_in_order ON lane_waits (schedule, scope, key_hash, satisfied_at, sequence, job);

-- A lease for each launcher process that executes runs inline. When it expires, another launcher takes its runs back.
CREATE TABLE launchers (
    runner text PRIMARY KEY,                   -- host:pid:start-ticks, as in runs.runner
    since timestamptz NOT NULL,                -- since when the lease has been held without a gap
    expires_at timestamptz NOT NULL,           -- by this server's clock
    -- How many processes a launcher has places for; NULL of one that does not say so.
    host_places integer,
    cluster_places integer
);

-- A backfill: many jobs of one schedule over a span, as one object.
CREATE TABLE backfills (
    id text PRIMARY KEY CONSTRAINT backfills_id CHECK (starts_with(id, schedule || '.backfill-')),
    schedule text NOT NULL,
    request jsonb NOT NULL,                    -- codec.backfills: what a person asked for
    state text NOT NULL CONSTRAINT backfills_state CHECK (state IN ('RUNNING', 'PAUSED', 'CANCELLED', 'COMPLETED')),
    reason text NOT NULL DEFAULT '',           -- why it is in this state, for people
    max_active integer NOT NULL CONSTRAINT backfills_max_active CHECK (max_active > 0),
    newest_first boolean NOT NULL,
    items integer NOT NULL,                    -- its jobs, made or not
    skipped integer NOT NULL,                  -- of its span, left out by `only`
    active integer NOT NULL DEFAULT 0,         -- items in these states; the others wait
    succeeded integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    dropped integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,           -- when it entered its state
    ended_at timestamptz,
    fed_at timestamptz NOT NULL,               -- when a launcher last checked it
    CONSTRAINT backfills_ended CHECK ((ended_at IS NOT NULL) = (state IN ('CANCELLED', 'COMPLETED'))),
    CONSTRAINT backfills_counts CHECK (least(items, skipped, active, succeeded, failed, dropped) >= 0
        AND active + succeeded + failed + dropped <= items)
);
CREATE INDEX backfills_to_feed ON backfills (fed_at, id) WHERE state = 'RUNNING' OR active > 0;
CREATE INDEX backfills_recent ON backfills (created_at DESC, id DESC);
CREATE INDEX backfills_of_schedule ON backfills (schedule, created_at DESC, id DESC);
CREATE INDEX backfills_to_forget ON backfills (ended_at) WHERE ended_at IS NOT NULL;

-- One job of a backfill; the job's id is backfill || '.' || number.
CREATE TABLE backfill_items (
    backfill text NOT NULL REFERENCES backfills (id) ON DELETE CASCADE,
    number integer NOT NULL,                   -- in the order of its span, from 1
    state text NOT NULL CONSTRAINT backfill_items_state
        CHECK (state IN ('WAITING', 'ACTIVE', 'SUCCEEDED', 'FAILED', 'DROPPED')),
    ready jsonb NOT NULL,                      -- codec.launch: its events, key and logical time
    PRIMARY KEY (backfill, number)
);
CREATE INDEX backfill_items_in_state ON backfill_items (backfill, state, number);

-- Preferences of namespaces: arguments of every run of their programs. A namespace without a row has none.
CREATE TABLE preferences (
    namespace text PRIMARY KEY,
    arguments jsonb NOT NULL CHECK (jsonb_typeof(arguments) = 'object'),
    reason text NOT NULL DEFAULT '',           -- of the last change
    changed_at timestamptz                     -- null: never changed
);


-- Queues, lanes and tasks. Why a lane is a row, and why 16 partitions: ADR 25.
CREATE SEQUENCE task_generations;              -- of registrations and of queues' definitions; never reused

CREATE TABLE task_queues (
    name text PRIMARY KEY CONSTRAINT task_queues_name CHECK (length(name) BETWEEN 1 AND 255),
    policy jsonb NOT NULL,
    dedupe interval NOT NULL,                  -- of the policy: so long ended tasks are kept at least
    paused boolean NOT NULL DEFAULT false,
    version bigint NOT NULL DEFAULT nextval('task_generations'),
    tokens double precision,                   -- level of the rate's bucket; NULL: full
    tokens_at timestamptz,
    changed_at timestamptz NOT NULL,
    CONSTRAINT task_queues_tokens CHECK ((tokens IS NULL) = (tokens_at IS NULL))
);

-- The epoch of the lease under which a partition's lanes may be started and freed.
CREATE TABLE task_partitions (
    partition integer PRIMARY KEY,
    epoch bigint NOT NULL,
    CONSTRAINT task_partitions_number CHECK (partition BETWEEN 0 AND 255)
);

INSERT INTO task_partitions (partition, epoch) SELECT n, 0 FROM generate_series(0, 15) AS n;

-- The processes that deliver tasks, with their heartbeats.
CREATE TABLE task_owners (
    id text PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    seen_at timestamptz NOT NULL,
    -- The newest version of lanes that it reads.
    reads integer NOT NULL DEFAULT 3
);

-- The lanes that have tasks. The row is the lane's lock: registrations, owners and people take it before its tasks. It
-- has room for one task in flight, so a second one cannot be.
CREATE TABLE task_lanes (
    id text PRIMARY KEY,                       -- a hash of queue and name
    partition integer NOT NULL,
    queue text NOT NULL,
    name text NOT NULL,
    ready_at timestamptz,                      -- when to check its head: not after the head may start; NULL: in flight
    in_flight text,                            -- the task
    generation bigint,                         -- of the registration that is in flight
    started_at timestamptz,
    CONSTRAINT task_lanes_in_flight CHECK (
        (in_flight IS NULL) = (ready_at IS NOT NULL) AND (in_flight IS NULL) = (generation IS NULL)
        AND (in_flight IS NULL) = (started_at IS NULL)
    ),
    CONSTRAINT task_lanes_partition CHECK (partition BETWEEN 0 AND 255)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX task_lanes_ready ON task_lanes (queue, partition, ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX task_lanes_started ON task_lanes (queue, partition) WHERE in_flight IS NOT NULL;

-- The tasks that have not ended.
CREATE TABLE tasks (
    id text PRIMARY KEY,                       -- a hash of its identity
    lane_id text NOT NULL,
    queue text NOT NULL,
    lane text NOT NULL,
    key text NOT NULL,
    state text NOT NULL CONSTRAINT tasks_state CHECK (state IN ('WAITING', 'RETRYING')),
    due_at timestamptz NOT NULL,
    -- Planned time of this tick; of a task delivered once, the first due time.
    planned_at timestamptz NOT NULL,
    next_at timestamptz NOT NULL,              -- earliest start of the next attempt
    generation bigint NOT NULL,                -- of its newest registration
    fired integer NOT NULL DEFAULT 0,          -- ticks that are done
    failures integer NOT NULL DEFAULT 0,       -- failed attempts of this tick
    interruptions integer NOT NULL DEFAULT 0,
    options jsonb,                             -- recurrence and own retry policy
    data bytea NOT NULL,
    content_type text NOT NULL,
    created_at timestamptz NOT NULL,
    error text NOT NULL DEFAULT '',            -- of the last attempt
    attempts jsonb NOT NULL DEFAULT '[]',      -- the latest 20 attempts of this tick, oldest first
    -- Deliveries of this tick whose worker was lost (ADR 26).
    losses integer NOT NULL DEFAULT 0,
    -- Of a recurring task: missed ticks that were skipped, and ticks for which its app had no handler (ADR 26).
    skipped bigint NOT NULL DEFAULT 0,
    unhandled bigint NOT NULL DEFAULT 0,
    CONSTRAINT tasks_never_early CHECK (next_at >= due_at),
    CONSTRAINT tasks_counts CHECK (fired >= 0 AND failures >= 0 AND interruptions >= 0),
    CONSTRAINT tasks_losses CHECK (losses >= 0)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- A lane in order: a started task first, then by due time and key.
CREATE INDEX tasks_in_order ON tasks (lane_id, (state = 'WAITING'), due_at, key);
CREATE UNIQUE INDEX tasks_one_started ON tasks (lane_id) WHERE state = 'RETRYING';
CREATE INDEX tasks_by_queue ON tasks (queue, due_at, id);

-- Ended tasks, and the ended ticks of recurring ones, by day.
CREATE TABLE tasks_history (
    at timestamptz NOT NULL,
    id text NOT NULL,
    queue text NOT NULL,
    lane text NOT NULL,
    key text NOT NULL,
    state text NOT NULL CONSTRAINT tasks_history_state CHECK (
        state IN ('SUCCEEDED', 'FAILED', 'EXPIRED', 'CANCELLED', 'DROPPED')
    ),
    final boolean NOT NULL,                    -- false: a tick, and the task goes on
    due_at timestamptz NOT NULL,
    record jsonb NOT NULL                      -- the row as it was, without the data
) PARTITION BY RANGE (at);
CREATE INDEX tasks_history_by_id ON tasks_history (id, at);
CREATE INDEX tasks_history_recent ON tasks_history (queue, at DESC, id DESC);

CREATE TABLE tasks_history_rest PARTITION OF tasks_history DEFAULT;

-- Instances of apps that get Dapr jobs, with heartbeats of their endpoints: launchers deliver to those seen lately. ADR
-- 26.
CREATE TABLE dapr_instances (
    queue text NOT NULL,                       -- of the app's jobs
    address text NOT NULL CONSTRAINT dapr_instances_address CHECK (length(address) BETWEEN 1 AND 2000),
    token text NOT NULL,                       -- sent to the app; '': none
    seen_at timestamptz NOT NULL,
    PRIMARY KEY (queue, address)
);

-- Where workers reach the owners of tasks (ADR 26).
CREATE TABLE task_streams (
    owner text PRIMARY KEY,
    url text NOT NULL CONSTRAINT task_streams_url CHECK (length(url) BETWEEN 1 AND 2000),
    seen_at timestamptz NOT NULL
);

-- Tasks of an app that depend on each other by job id. Edges are computed from the tasks and never stored.
CREATE TABLE graphs (
    app text PRIMARY KEY,
    generation bigint NOT NULL CHECK (generation > 0),
    tasks text NOT NULL,                       -- JSON, whose order counts
    updated_at timestamptz NOT NULL
);

CREATE TABLE graph_nodes (
    app text NOT NULL REFERENCES graphs,
    task text NOT NULL,
    job_id text NOT NULL,
    state text NOT NULL CHECK (state IN ('WAITING', 'QUEUED', 'COMPLETED', 'FAILED', 'SKIPPED', 'UPSTREAM_FAILED',
        'UPSTREAM_SKIPPED')),
    -- What its children have counted.
    reported text NOT NULL CHECK (reported IN ('missing', 'complete', 'failed', 'skipped')),
    groups integer[] NOT NULL CHECK (cardinality(groups) % 4 = 0), -- (group, missing, failed, skipped) for each group
    round integer NOT NULL CHECK (round >= 0), -- number of its jobs
    again boolean NOT NULL,
    generation bigint NOT NULL,                -- of the graph by which its parents were counted
    job text UNIQUE,                           -- the latest
    reason text NOT NULL,
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    unreported boolean NOT NULL GENERATED ALWAYS AS (reported <> CASE state
        WHEN 'COMPLETED' THEN 'complete'
        WHEN 'FAILED' THEN 'failed' WHEN 'UPSTREAM_FAILED' THEN 'failed'
        WHEN 'SKIPPED' THEN 'skipped' WHEN 'UPSTREAM_SKIPPED' THEN 'skipped'
        ELSE 'missing' END) STORED,
    -- `held`: a node that is ready while its schedule is paused or disabled waits without a job.
    held boolean NOT NULL DEFAULT false,
    -- `report_at`: not before then do the children of a node count its state; a function that names them has failed.
    report_at timestamptz NOT NULL DEFAULT '-infinity',
    -- `stuck`: the tasks among a node's children of which not all have counted what it reported; a function that
    -- relates them has failed (ADR 27). They are counted anew, at `report_at` again.
    stuck text[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (app, task, job_id),
    CHECK (state <> 'QUEUED' OR job IS NOT NULL)
);
CREATE INDEX graph_nodes_generation ON graph_nodes (app, generation);
CREATE INDEX graph_nodes_state ON graph_nodes (app, task, state, job_id);
CREATE INDEX graph_nodes_held ON graph_nodes (app, task, job_id) WHERE held AND state = 'WAITING';
-- Nodes that have ended, by the time of their end: the oldest leave first.
CREATE INDEX graph_nodes_ended ON graph_nodes (changed_at, app, task, job_id)
    WHERE state NOT IN ('WAITING', 'QUEUED') AND NOT unreported;
CREATE INDEX graph_nodes_to_report ON graph_nodes (report_at, changed_at) WHERE unreported;
-- Few of many: those whose children are computed again.
CREATE INDEX graph_nodes_stuck ON graph_nodes (report_at) WHERE stuck <> '{}';

-- Jobs of nodes that may have ended. A row is deleted in the transaction that moves the node, so each end counts once.
CREATE TABLE node_ends (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    job text NOT NULL
);
-- Ends that no node has counted yet: their jobs do not leave for the history.
CREATE INDEX node_ends_job ON node_ends (job);

-- The number of partitions of lanes can be changed in operation (ADR 25). Owners share the partitions that have a row
-- in `task_partitions`; new lanes go to the first `partitions` of them.
CREATE TABLE task_layout (
    sole boolean PRIMARY KEY DEFAULT true CONSTRAINT task_layout_sole CHECK (sole),
    partitions integer NOT NULL CONSTRAINT task_layout_partitions CHECK (partitions BETWEEN 1 AND 256),
    wanted integer NOT NULL CONSTRAINT task_layout_wanted CHECK (wanted BETWEEN 1 AND 256),
    settled boolean NOT NULL                   -- whether all lanes are where new ones would go
);

INSERT INTO task_layout (partitions, wanted, settled) VALUES (16, 16, true);

-- Bookmarks: how far a watcher or a consumer has read a dataset. See domain/datasets/bookmark.py.
CREATE TABLE bookmarks (
    name text PRIMARY KEY,
    value text NOT NULL,                       -- of the reader's own format
    revision bigint NOT NULL CHECK (revision > 0),
    changed_at timestamptz NOT NULL,
    -- How often a reader was given a cue that its dataset may have something new.
    cues bigint NOT NULL DEFAULT 0
);

-- Values that bookmarks get when a run succeeds. See domain/datasets/bookmark.py.
CREATE TABLE bookmark_moves (
    name text NOT NULL,                        -- of the bookmark, which need not exist yet
    run text NOT NULL,
    value text NOT NULL,
    revision bigint NOT NULL CHECK (revision >= 0), -- that the run has read
    PRIMARY KEY (name, run)
);

-- API tokens. Of a secret only its SHA-256 digest is stored.
CREATE TABLE api_tokens (
    id text PRIMARY KEY CHECK (id ~ '^[0-9a-f]{12}$'),
    name text NOT NULL CHECK (name <> ''),
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    grants jsonb NOT NULL CHECK (jsonb_typeof(grants) = 'array'),
    created_at timestamptz NOT NULL,
    created_by text NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    revoked_by text NOT NULL DEFAULT '',
    used_at timestamptz,
    CHECK (expires_at > created_at)
);
CREATE INDEX api_tokens_by_name ON api_tokens (name, id);
CREATE UNIQUE INDEX api_tokens_in_use ON api_tokens (name) WHERE revoked_at IS NULL;

-- The key that signs tokens of runs.
CREATE TABLE installation_key (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    key bytea NOT NULL CHECK (octet_length(key) = 32)
);

-- Who requested which change. Each entry has the hash of the one before it, so one that is changed, removed or inserted
-- later is found. `outcome` entries name the number of their request.
CREATE TABLE audit (
    number bigint PRIMARY KEY CHECK (number > 0),
    at timestamptz NOT NULL,
    caller text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    detail jsonb NOT NULL CHECK (jsonb_typeof(detail) = 'object'),
    previous bytea NOT NULL CHECK (octet_length(previous) = 32),
    hash bytea NOT NULL CHECK (octet_length(hash) = 32)
);
CREATE INDEX audit_by_caller ON audit (caller, number);
CREATE TRIGGER audit_append_only BEFORE UPDATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();
CREATE TRIGGER audit_keeps_entries BEFORE DELETE ON audit FOR EACH ROW EXECUTE FUNCTION keep_audit_from_start();
CREATE TRIGGER audit_moves_head AFTER INSERT ON audit FOR EACH ROW EXECUTE FUNCTION move_audit_head();
CREATE TRIGGER audit_not_emptied BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();

-- Bundles: folders of apps as tar archives, named by the SHA-256 of their content. See store/programs/bundles.py.
CREATE TABLE bundles (
    namespace text NOT NULL,
    digest text NOT NULL CHECK (digest ~ '^[0-9a-f]{64}$'),
    bytes bigint NOT NULL CHECK (bytes >= 0),
    files integer NOT NULL CHECK (files >= 0),
    created_at timestamptz NOT NULL,
    -- Of the latest upload or deployment; an unused one is removed long after.
    used_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, digest)
);
CREATE INDEX bundles_by_use ON bundles (used_at);

-- Their content in order.
CREATE TABLE bundle_chunks (
    namespace text NOT NULL,
    digest text NOT NULL,
    number integer NOT NULL CHECK (number >= 0),
    content bytea NOT NULL,
    PRIMARY KEY (namespace, digest, number),
    FOREIGN KEY (namespace, digest) REFERENCES bundles (namespace, digest) ON DELETE CASCADE
);

-- Profiles of Spark programs: settings that programs name. Namespace '*': of the installation, for programs of all
-- namespaces. See store/programs/profiles.py.
CREATE TABLE spark_profiles (
    namespace text NOT NULL,
    name text NOT NULL,
    definition jsonb NOT NULL CHECK (jsonb_typeof(definition) = 'object'), -- codec.schedules.spark_needs
    reason text NOT NULL DEFAULT '',           -- of the last change
    changed_at timestamptz NOT NULL,
    -- Whether who set a Spark profile has the permission `shell` (ADR 32). Of profiles that were set before, that is
    -- not known: they go on.
    shell boolean NOT NULL DEFAULT true,
    PRIMARY KEY (namespace, name)
);
CREATE INDEX spark_profiles_by_name ON spark_profiles (name);

-- Commits of file sets on storages that cannot create a file only if it is absent. See domain/datasets/file_set_commit.py.
CREATE TABLE file_sets (
    dataset text PRIMARY KEY,                  -- namespace.name
    location text NOT NULL,                    -- URL of its folder: a dataset has one
    commits bigint NOT NULL CHECK (commits > 0) -- the number of the last one; its lock orders the writers
);

CREATE TABLE file_set_commits (
    dataset text NOT NULL REFERENCES file_sets (dataset) ON DELETE CASCADE,
    number bigint NOT NULL CHECK (number > 0), -- without gaps
    commit_id text NOT NULL,
    manifest text NOT NULL,                    -- the file that names the data, relative to the location
    PRIMARY KEY (dataset, number),
    UNIQUE (dataset, commit_id)                -- a commit is visible once
);

-- The definitions that a schedule has had, the newest 50 of each. A pause or an enabling makes a generation without a
-- version of its own.
CREATE TABLE schedule_versions (
    schedule text NOT NULL,
    generation bigint NOT NULL CHECK (generation > 0), -- the first with this definition
    at timestamptz NOT NULL,
    reason text NOT NULL,
    definition jsonb NOT NULL,
    PRIMARY KEY (schedule, generation)
);

-- Quotas: limits that an admin sets on a namespace. The locked row of a count makes changes of its namespace one after
-- another. See domain/quotas/quota.py.
CREATE TABLE quotas (
    namespace text NOT NULL,
    quota text NOT NULL CHECK (quota IN ('schedules', 'accumulations', 'runs', 'events_per_second', 'body_bytes',
        'shared_names', 'webhooks', 'log_bytes')),
    most bigint NOT NULL CHECK (most >= 0),
    reason text NOT NULL DEFAULT '',           -- of the last change
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, quota)
);

-- The events that a namespace may still send: what no process of the API holds. See domain/quotas/event_level.py.
CREATE TABLE quota_levels (
    namespace text PRIMARY KEY,
    tokens double precision NOT NULL,          -- negative: a debt
    at timestamptz NOT NULL
);

-- What each process of the API holds of them, and how much it is asked for. Rewritten every second while events come.
CREATE TABLE quota_shares (
    namespace text NOT NULL,
    process text NOT NULL,
    tokens double precision NOT NULL,
    asked double precision NOT NULL,           -- events a second, accepted or not
    accepted double precision NOT NULL,        -- events a second
    at timestamptz NOT NULL,
    PRIMARY KEY (namespace, process)
) WITH (fillfactor = 50);

-- Targets that are sent the changes of jobs and runs (ADR 35). Each has a queue of tasks, `webhook.<id>`.
CREATE TABLE webhooks (
    id text PRIMARY KEY,                       -- namespace.name
    definition jsonb NOT NULL,                 -- without its secret
    secret text,                               -- the generated one; NULL: the definition refers to one
    -- The last line of the history that was put into its queue, or passed over.
    position bigint NOT NULL,
    -- Due time of the tasks that were put into its queue last; never goes back.
    fed_at timestamptz NOT NULL,
    enabled boolean NOT NULL DEFAULT true,
    changed_at timestamptz NOT NULL,           -- when it was created, enabled or disabled
    reason text NOT NULL DEFAULT '',           -- of that
    by_owner boolean NOT NULL DEFAULT true,    -- false: the installation disabled it
    created_at timestamptz NOT NULL,
    created_by text NOT NULL,
    -- The secret before the last one of a webhook signs beside it for a while, so that its receiver can follow (ADR
    -- 35).
    old_secret text,                           -- the generated one
    old_reference text,                        -- or the reference to it
    old_until timestamptz,                     -- until when; NULL: there is none
    -- When the latest message of a webhook for people was made.
    sent_at timestamptz,
    CONSTRAINT webhooks_position CHECK (position >= 0),
    CONSTRAINT webhooks_enabled_by_owner CHECK (by_owner OR NOT enabled),
    CONSTRAINT webhooks_old_secret
    CHECK ((old_until IS NULL) = (old_secret IS NULL AND old_reference IS NULL))
);

-- Who follows the history reads the lines after a number. Its parts are indexed one by one, beside writers.
CREATE INDEX work_decisions_by_id ON work_decisions (id);

-- What the owner of a namespace lets definitions of another refer to. See domain/access/references.py.
CREATE TABLE namespace_grants (
    owner text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('dataset', 'stream', 'event', 'program', 'group', 'pool')),
    name text NOT NULL,                        -- without the namespace; of a program, app.program; a pattern
    grantee text NOT NULL,
    state text NOT NULL CHECK (state IN ('pending', 'granted', 'refused')),
    details boolean NOT NULL DEFAULT false,
    reason text NOT NULL DEFAULT '',           -- of the last decision
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (owner, kind, name, grantee),
    CHECK (owner <> grantee),
    CHECK (state = 'granted' OR NOT details)
);
CREATE INDEX namespace_grants_grantee ON namespace_grants (grantee, owner);

-- The namespace to which the name of a group or pool belongs: the one that declared it first.
CREATE TABLE shared_names (
    kind text NOT NULL CHECK (kind IN ('group', 'pool')),
    name text NOT NULL,
    namespace text NOT NULL,
    since timestamptz NOT NULL,
    PRIMARY KEY (kind, name)
);
CREATE INDEX shared_names_namespace ON shared_names (namespace);

-- Schedules that wait for a program of another namespace that was deleted. They stay as they are; the row says so until
-- the program is deployed again.
CREATE TABLE removed_programs (
    schedule text NOT NULL,
    program text NOT NULL,
    removed_at timestamptz NOT NULL,
    removed_by text NOT NULL,                  -- the caller; empty when it is not known
    PRIMARY KEY (schedule, program)
);
CREATE INDEX removed_programs_by_program ON removed_programs (program);

-- The last entry of the audit, kept beside it: an audit from whose end entries were removed, or all, is found. Number
-- 0: there was none yet.
CREATE TABLE audit_head (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    number bigint NOT NULL CHECK (number >= 0),
    hash bytea NOT NULL CHECK (octet_length(hash) = 32)
);
INSERT INTO audit_head (number, hash) VALUES (0, decode(repeat('00', 32), 'hex'));
-- The last entry that was kept for its time and is gone with those before it; number 0: all are there. The chain begins
-- with its hash, and an entry of action `forget` says that it is gone.
CREATE TABLE audit_start (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    number bigint NOT NULL CHECK (number >= 0),
    hash bytea NOT NULL CHECK (octet_length(hash) = 32)
);
INSERT INTO audit_start (number, hash) VALUES (0, decode(repeat('00', 32), 'hex'));
CREATE TRIGGER audit_start_moves BEFORE UPDATE ON audit_start FOR EACH ROW EXECUTE FUNCTION check_audit_start();
CREATE TRIGGER audit_start_stays BEFORE DELETE OR TRUNCATE ON audit_start
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();
CREATE TRIGGER audit_head_moves BEFORE UPDATE ON audit_head FOR EACH ROW EXECUTE FUNCTION check_audit_head();
CREATE TRIGGER audit_head_stays BEFORE DELETE OR TRUNCATE ON audit_head
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();

-- Lines that a launcher refused of the spool of a run, or of what lies outside the folder of a run (run is ''). The
-- lines themselves are in files beside the spool on that host.
CREATE TABLE refused_spool_lines (
    host text NOT NULL,
    run text NOT NULL,
    lines bigint NOT NULL CHECK (lines > 0),
    reason text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (host, run)
);
CREATE INDEX refused_spool_lines_by_time ON refused_spool_lines (at);

-- The epochs of jobs that commit to file sets. See domain/datasets/file_set_commit.py.
CREATE TABLE file_set_epochs (
    dataset text NOT NULL,                     -- namespace.name
    job text NOT NULL,                         -- its id; of a run without a job the run's
    attempt integer NOT NULL CHECK (attempt > 0), -- the highest that has begun; earlier ones commit no more
    PRIMARY KEY (dataset, job)
);

-- Jobs that lack only a place for their process.
CREATE TABLE room_waits (
    job text PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    kind text NOT NULL,                        -- of process: host or cluster
    namespace text NOT NULL,
    pool text NOT NULL,                        -- empty: none
    turn_at timestamptz NOT NULL
);
CREATE INDEX room_waits_in_order ON room_waits (kind, namespace, pool, turn_at, job);

-- When a namespace and pool last got a place.
CREATE TABLE room_shares (
    kind text,
    namespace text,
    pool text,
    served_at timestamptz NOT NULL,
    PRIMARY KEY (kind, namespace, pool)
);

-- How runs that OpenLineage tells of have ended, so that a contradiction later does not count.
CREATE TABLE lineage_ends (
    program text NOT NULL,
    run text NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('succeeded', 'failed', 'killed')),
    at timestamptz NOT NULL,
    PRIMARY KEY (program, run)
);
CREATE INDEX lineage_ends_by_age ON lineage_ends (at);

-- Judgements about this server's clock (domain/clock_judge.py); the newest counts, and without one the clock is right.
-- `until` and `at` are the time that processes went by, `theirs` is what the clock said then.
CREATE TABLE clock_judgements (
    number bigint PRIMARY KEY CHECK (number > 0),
    fact text NOT NULL CHECK (fact IN ('jumped', 'overruled', 'returned', 'accepted', 'confirmed')),
    ahead_s double precision NOT NULL,
    until timestamptz,
    at timestamptz NOT NULL,
    theirs timestamptz NOT NULL,
    judged_by text NOT NULL,
    CHECK ((fact = 'jumped') = (ahead_s <> 0))
);

-- What each process of the installation says of itself: by which rules of zones it computes ticks, and how far its
-- machine's clock is ahead.
CREATE TABLE processes (
    id text PRIMARY KEY,
    role text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    release text NOT NULL,
    tzdata text NOT NULL,
    own_ahead_s double precision NOT NULL,
    seen_at timestamptz NOT NULL
);

-- By which rules of zones, and after which judgement about the clock, the stored ticks were reviewed last; one row.
CREATE TABLE ticks_reviewed (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    tzdata text NOT NULL,
    judgement bigint NOT NULL,
    at timestamptz NOT NULL
);

-- What must be there by which time (ADR 16): each expectation between two due times.
CREATE TABLE expectations (
    id text PRIMARY KEY,                       -- namespace.app.name
    app text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('dataset', 'schedule')),
    subject text NOT NULL,                     -- the dataset or schedule
    definition jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    since timestamptz NOT NULL,                -- what came up to then does not count for the due time
    due_at timestamptz,                        -- NULL: it is not due any more
    starts timestamp,                          -- when the period of the due time starts on the zone's clock
    opens_at timestamptz,                      -- the same as an instant, of one that is due at its usual time
    learning boolean NOT NULL DEFAULT false,   -- its usual time is not known: the due time is the end of the period
    recent bigint[] NOT NULL DEFAULT '{}',     -- seconds from the start of a period until it came, the newest last
    open_misses integer NOT NULL DEFAULT 0,    -- misses whose subject may still come
    stirred boolean NOT NULL DEFAULT false,    -- something came for one of these
    stopped text,                              -- why it is not judged any more; NULL: it is
    CONSTRAINT expectations_period CHECK ((due_at IS NULL) = (starts IS NULL)),
    CONSTRAINT expectations_stopped CHECK (stopped IS NULL OR due_at IS NULL)
);
CREATE INDEX expectations_due ON expectations (kind, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX expectations_stirred ON expectations (id) WHERE stirred;
CREATE INDEX expectations_of_subject ON expectations (kind, subject);
CREATE INDEX expectations_of_app ON expectations (app);
CREATE INDEX expectations_missed ON expectations (id) WHERE open_misses > 0;

-- Due times at which something was not there; one row each, for people.
CREATE TABLE expectation_misses (
    expectation text NOT NULL REFERENCES expectations ON DELETE CASCADE,
    due_at timestamptz NOT NULL,
    starts timestamp NOT NULL,
    key text NOT NULL,                         -- the partition or key that was missing; '': any would have done
    reason text NOT NULL,
    found_at timestamptz NOT NULL,             -- when it was judged
    announced boolean NOT NULL,                -- false: a later due time had passed too
    open boolean NOT NULL,                     -- it may still come
    came_at timestamptz,
    PRIMARY KEY (expectation, due_at),
    CONSTRAINT expectation_misses_came CHECK (came_at IS NULL OR NOT open)
);

-- When commits of datasets, and completed runs of schedules, that expectations are about came: each once, and of the
-- keys that they name the first.
CREATE TABLE evidence (
    kind text NOT NULL,
    subject text NOT NULL,
    mark bytea NOT NULL,                       -- of the event or run, so that a repeat is recognised
    at timestamptz NOT NULL,                   -- when the log had it, or when the run ended
    PRIMARY KEY (kind, subject, mark)
);
CREATE INDEX evidence_in_order ON evidence (kind, subject, at);

CREATE TABLE evidence_keys (
    kind text NOT NULL,
    subject text NOT NULL,
    key text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (kind, subject, key)
);
CREATE INDEX evidence_keys_in_order ON evidence_keys (kind, subject, at);

-- Up to which instant all of a kind has been read.
CREATE TABLE evidence_read (
    kind text PRIMARY KEY,
    at timestamptz NOT NULL
);

-- How far readers of the history have read it.
CREATE TABLE history_readers (
    name text PRIMARY KEY,
    position bigint NOT NULL CHECK (position >= 0)
);

-- Schedules, and programs that were started without one, whose latest run failed with its last attempt (ADR 35).
CREATE TABLE failing (
    owner text PRIMARY KEY,
    run text NOT NULL,
    since timestamptz NOT NULL
);

-- Who is notified of the failures of an app.
CREATE TABLE notice_recipients (
    id text PRIMARY KEY,                       -- the app, and a digest of the definition
    app text NOT NULL,
    place integer NOT NULL,                    -- in the app's definition
    definition jsonb NOT NULL,
    first bigint,                              -- the first line of the history that is to be sent; NULL: there is none
    sent_at timestamptz                        -- when the latest message was made
);
CREATE INDEX notice_recipients_of_app ON notice_recipients (app);
CREATE INDEX notice_recipients_waiting ON notice_recipients (sent_at) WHERE first IS NOT NULL;

-- Lines of jobs and runs that recipients may want: few of many. The queries have the same condition.
CREATE INDEX work_decisions_failures ON work_decisions (id)
    WHERE action IN ('job.deadline_missed', 'run.recovered') OR subject_kind = 'run' AND detail -> 'failed' IS NOT NULL;

-- Who follows the history reads its lines by number. Its parts are indexed one by one, beside writers.
CREATE INDEX audit_decisions_by_id ON audit_decisions (id);

-- The same lines as by number, for the recipients of one app.
CREATE INDEX work_decisions_failures_of_subject ON work_decisions (subject, id)
    WHERE action IN ('job.deadline_missed', 'run.recovered') OR subject_kind = 'run' AND detail -> 'failed' IS NOT NULL;
