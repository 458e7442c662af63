-- Made from a migrated database by tests/integration/store/test_schema_file.py with UPDATE_DOCS=1.
CREATE SEQUENCE decisions_ids;

CREATE SEQUENCE task_generations;

CREATE OR REPLACE FUNCTION check_audit_head()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF NEW.number = OLD.number + 1 AND EXISTS (
        SELECT FROM audit WHERE number = NEW.number AND hash = NEW.hash AND previous = OLD.hash
    ) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the head of the audit moves with its entries only';
END
$function$
;

CREATE OR REPLACE FUNCTION check_audit_start()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF NEW.number > OLD.number AND EXISTS (SELECT FROM audit WHERE number = NEW.number AND hash = NEW.hash) AND EXISTS (
        SELECT FROM audit a JOIN audit_head h ON h.number = a.number
        WHERE a.action = 'forget' AND a.detail ->> 'upto' = NEW.number::text
    ) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the start of the audit moves with an entry about it only';
END
$function$
;

CREATE OR REPLACE FUNCTION drop_part_v1(parent text, before timestamp with time zone)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION keep_audit_from_start()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF OLD.number > (SELECT number FROM audit_start) THEN
        RAISE EXCEPTION 'the audit is append-only';
    END IF;
    RETURN OLD;
END
$function$
;

CREATE OR REPLACE FUNCTION make_one_part_v1(parent text, begins timestamp with time zone, ends timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION make_part_v1(parent text, begins timestamp with time zone, ends timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION move_audit_head()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    UPDATE audit_head SET number = NEW.number, hash = NEW.hash
    WHERE number = NEW.number - 1 AND hash = NEW.previous;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'entry % of the audit does not follow the last one', NEW.number;
    END IF;
    RETURN NULL;
END
$function$
;

CREATE OR REPLACE FUNCTION note_node_job_end_v1()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    INSERT INTO node_ends (job) SELECT job FROM graph_nodes WHERE job = NEW.id;
    IF FOUND THEN
        PERFORM pg_notify('graph', '');
    END IF;
    RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION note_node_run_end_v1()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    INSERT INTO node_ends (job) SELECT job FROM graph_nodes WHERE job = NEW.job;
    IF FOUND THEN
        PERFORM pg_notify('graph', '');
    END IF;
    RETURN NULL;
END $function$
;

CREATE OR REPLACE FUNCTION notify_v1()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM pg_notify(TG_ARGV[0], '');
    RETURN NULL;
END
$function$
;

CREATE OR REPLACE FUNCTION refuse_change_of_audit()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION 'the audit is append-only';
END
$function$
;

CREATE OR REPLACE FUNCTION task_partition_v1(lane text, partitions integer)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
    SELECT (('x' || left(lane, 8))::bit(32)::bigint % partitions)::integer
$function$
;

CREATE TABLE api_tokens (
    id text NOT NULL,
    name text NOT NULL,
    digest bytea NOT NULL,
    grants jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    created_by text NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    revoked_by text NOT NULL DEFAULT ''::text,
    used_at timestamp with time zone,
    CONSTRAINT api_tokens_check CHECK ((expires_at > created_at)),
    CONSTRAINT api_tokens_digest_check CHECK ((octet_length(digest) = 32)),
    CONSTRAINT api_tokens_grants_check CHECK ((jsonb_typeof(grants) = 'array'::text)),
    CONSTRAINT api_tokens_id_check CHECK ((id ~ '^[0-9a-f]{12}$'::text)),
    CONSTRAINT api_tokens_name_check CHECK ((name <> ''::text)),
    CONSTRAINT api_tokens_pkey PRIMARY KEY (id)
);
CREATE INDEX api_tokens_by_name ON api_tokens USING btree (name, id);
CREATE UNIQUE INDEX api_tokens_in_use ON api_tokens USING btree (name) WHERE (revoked_at IS NULL);

CREATE TABLE apps (
    id text NOT NULL,
    namespace text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    origin text,
    forgotten_generation bigint NOT NULL DEFAULT 0,
    CONSTRAINT apps_namespace_fkey FOREIGN KEY (namespace) REFERENCES namespaces(name),
    CONSTRAINT apps_pkey PRIMARY KEY (id)
);

CREATE TABLE audit (
    number bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    caller text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    detail jsonb NOT NULL,
    previous bytea NOT NULL,
    hash bytea NOT NULL,
    CONSTRAINT audit_detail_check CHECK ((jsonb_typeof(detail) = 'object'::text)),
    CONSTRAINT audit_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT audit_number_check CHECK ((number > 0)),
    CONSTRAINT audit_pkey PRIMARY KEY (number),
    CONSTRAINT audit_previous_check CHECK ((octet_length(previous) = 32))
);
CREATE INDEX audit_by_caller ON audit USING btree (caller, number);
CREATE TRIGGER audit_append_only BEFORE UPDATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();
CREATE TRIGGER audit_keeps_entries BEFORE DELETE ON audit FOR EACH ROW EXECUTE FUNCTION keep_audit_from_start();
CREATE TRIGGER audit_moves_head AFTER INSERT ON audit FOR EACH ROW EXECUTE FUNCTION move_audit_head();
CREATE TRIGGER audit_not_emptied BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();

CREATE TABLE audit_decisions PARTITION OF decisions DEFAULT PARTITION BY RANGE (at);
CREATE INDEX audit_decisions_by_id ON ONLY audit_decisions USING btree (id);

CREATE TABLE audit_decisions_rest PARTITION OF audit_decisions DEFAULT;

CREATE TABLE audit_head (
    single boolean NOT NULL DEFAULT true,
    number bigint NOT NULL,
    hash bytea NOT NULL,
    CONSTRAINT audit_head_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT audit_head_number_check CHECK ((number >= 0)),
    CONSTRAINT audit_head_pkey PRIMARY KEY (single),
    CONSTRAINT audit_head_single_check CHECK (single)
);
CREATE TRIGGER audit_head_moves BEFORE UPDATE ON audit_head FOR EACH ROW EXECUTE FUNCTION check_audit_head();
CREATE TRIGGER audit_head_stays BEFORE DELETE OR TRUNCATE ON audit_head FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();

CREATE TABLE audit_start (
    single boolean NOT NULL DEFAULT true,
    number bigint NOT NULL,
    hash bytea NOT NULL,
    CONSTRAINT audit_start_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT audit_start_number_check CHECK ((number >= 0)),
    CONSTRAINT audit_start_pkey PRIMARY KEY (single),
    CONSTRAINT audit_start_single_check CHECK (single)
);
CREATE TRIGGER audit_start_moves BEFORE UPDATE ON audit_start FOR EACH ROW EXECUTE FUNCTION check_audit_start();
CREATE TRIGGER audit_start_stays BEFORE DELETE OR TRUNCATE ON audit_start FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();

CREATE TABLE backfill_items (
    backfill text NOT NULL,
    number integer NOT NULL,
    state text NOT NULL,
    ready jsonb NOT NULL,
    CONSTRAINT backfill_items_backfill_fkey FOREIGN KEY (backfill) REFERENCES backfills(id) ON DELETE CASCADE,
    CONSTRAINT backfill_items_pkey PRIMARY KEY (backfill, number),
    CONSTRAINT backfill_items_state CHECK ((state = ANY (ARRAY['WAITING'::text, 'ACTIVE'::text, 'SUCCEEDED'::text, 'FAILED'::text, 'DROPPED'::text])))
);
CREATE INDEX backfill_items_in_state ON backfill_items USING btree (backfill, state, number);

CREATE TABLE backfills (
    id text NOT NULL,
    schedule text NOT NULL,
    request jsonb NOT NULL,
    state text NOT NULL,
    reason text NOT NULL DEFAULT ''::text,
    max_active integer NOT NULL,
    newest_first boolean NOT NULL,
    items integer NOT NULL,
    skipped integer NOT NULL,
    active integer NOT NULL DEFAULT 0,
    succeeded integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    dropped integer NOT NULL DEFAULT 0,
    created_at timestamp with time zone NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    fed_at timestamp with time zone NOT NULL,
    CONSTRAINT backfills_counts CHECK (((LEAST(items, skipped, active, succeeded, failed, dropped) >= 0) AND ((((active + succeeded) + failed) + dropped) <= items))),
    CONSTRAINT backfills_ended CHECK (((ended_at IS NOT NULL) = (state = ANY (ARRAY['CANCELLED'::text, 'COMPLETED'::text])))),
    CONSTRAINT backfills_id CHECK (starts_with(id, (schedule || '.backfill-'::text))),
    CONSTRAINT backfills_max_active CHECK ((max_active > 0)),
    CONSTRAINT backfills_pkey PRIMARY KEY (id),
    CONSTRAINT backfills_state CHECK ((state = ANY (ARRAY['RUNNING'::text, 'PAUSED'::text, 'CANCELLED'::text, 'COMPLETED'::text])))
);
CREATE INDEX backfills_of_schedule ON backfills USING btree (schedule, created_at DESC, id DESC);
CREATE INDEX backfills_recent ON backfills USING btree (created_at DESC, id DESC);
CREATE INDEX backfills_to_feed ON backfills USING btree (fed_at, id) WHERE ((state = 'RUNNING'::text) OR (active > 0));
CREATE INDEX backfills_to_forget ON backfills USING btree (ended_at) WHERE (ended_at IS NOT NULL);

CREATE TABLE bookmark_moves (
    name text NOT NULL,
    run text NOT NULL,
    value text NOT NULL,
    revision bigint NOT NULL,
    CONSTRAINT bookmark_moves_pkey PRIMARY KEY (name, run),
    CONSTRAINT bookmark_moves_revision_check CHECK ((revision >= 0))
);

CREATE TABLE bookmarks (
    name text NOT NULL,
    value text NOT NULL,
    revision bigint NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    cues bigint NOT NULL DEFAULT 0,
    CONSTRAINT bookmarks_pkey PRIMARY KEY (name),
    CONSTRAINT bookmarks_revision_check CHECK ((revision > 0))
);

CREATE TABLE breaks (
    schedule text NOT NULL,
    generation bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    keep boolean NOT NULL,
    until timestamp with time zone,
    note text NOT NULL,
    CONSTRAINT breaks_pkey PRIMARY KEY (schedule),
    CONSTRAINT breaks_schedule_fkey FOREIGN KEY (schedule) REFERENCES schedules(id) ON DELETE CASCADE
);

CREATE TABLE buckets (
    name text NOT NULL,
    remaining double precision NOT NULL,
    at timestamp with time zone NOT NULL,
    CONSTRAINT buckets_pkey PRIMARY KEY (name)
);

CREATE TABLE bundle_chunks (
    namespace text NOT NULL,
    digest text NOT NULL,
    number integer NOT NULL,
    content bytea NOT NULL,
    CONSTRAINT bundle_chunks_namespace_digest_fkey FOREIGN KEY (namespace, digest) REFERENCES bundles(namespace, digest) ON DELETE CASCADE,
    CONSTRAINT bundle_chunks_number_check CHECK ((number >= 0)),
    CONSTRAINT bundle_chunks_pkey PRIMARY KEY (namespace, digest, number)
);

CREATE TABLE bundles (
    namespace text NOT NULL,
    digest text NOT NULL,
    bytes bigint NOT NULL,
    files integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone NOT NULL,
    CONSTRAINT bundles_bytes_check CHECK ((bytes >= 0)),
    CONSTRAINT bundles_digest_check CHECK ((digest ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT bundles_files_check CHECK ((files >= 0)),
    CONSTRAINT bundles_pkey PRIMARY KEY (namespace, digest)
);
CREATE INDEX bundles_by_use ON bundles USING btree (used_at);

CREATE TABLE clock_judgements (
    number bigint NOT NULL,
    fact text NOT NULL,
    ahead_s double precision NOT NULL,
    until timestamp with time zone,
    at timestamp with time zone NOT NULL,
    theirs timestamp with time zone NOT NULL,
    judged_by text NOT NULL,
    CONSTRAINT clock_judgements_check CHECK (((fact = 'jumped'::text) = (ahead_s <> (0)::double precision))),
    CONSTRAINT clock_judgements_fact_check CHECK ((fact = ANY (ARRAY['jumped'::text, 'overruled'::text, 'returned'::text, 'accepted'::text, 'confirmed'::text]))),
    CONSTRAINT clock_judgements_number_check CHECK ((number > 0)),
    CONSTRAINT clock_judgements_pkey PRIMARY KEY (number)
);

CREATE TABLE clusters (
    name text NOT NULL,
    reading jsonb,
    at timestamp with time zone,
    failed text,
    failing timestamp with time zone,
    asked_until timestamp with time zone NOT NULL DEFAULT '1970-01-01 00:00:00+00'::timestamp with time zone,
    CONSTRAINT clusters_pkey PRIMARY KEY (name)
);

CREATE TABLE dapr_instances (
    queue text NOT NULL,
    address text NOT NULL,
    token text NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    CONSTRAINT dapr_instances_address CHECK (((length(address) >= 1) AND (length(address) <= 2000))),
    CONSTRAINT dapr_instances_pkey PRIMARY KEY (queue, address)
);

CREATE TABLE deadlines (
    job text NOT NULL,
    run text NOT NULL,
    place smallint NOT NULL,
    due_at timestamp with time zone NOT NULL,
    said jsonb NOT NULL,
    CONSTRAINT deadlines_job_fkey FOREIGN KEY (job) REFERENCES jobs(id) ON DELETE CASCADE,
    CONSTRAINT deadlines_pkey PRIMARY KEY (job, run, place)
);
CREATE INDEX deadlines_due ON deadlines USING btree (due_at);

CREATE TABLE decisions (
    id bigint NOT NULL DEFAULT nextval('decisions_ids'::regclass),
    at timestamp with time zone NOT NULL,
    subject_kind text NOT NULL,
    subject text NOT NULL,
    action text NOT NULL,
    reason text NOT NULL DEFAULT ''::text,
    detail jsonb,
    CONSTRAINT decisions_subject_kind_check CHECK ((subject_kind = ANY (ARRAY['app'::text, 'program'::text, 'schedule'::text, 'job'::text, 'run'::text, 'group'::text, 'namespace'::text, 'queue'::text, 'task'::text, 'expectation'::text])))
) PARTITION BY LIST (subject_kind);
CREATE INDEX decisions_of_subject ON ONLY decisions USING btree (subject, id);

CREATE TABLE evidence (
    kind text NOT NULL,
    subject text NOT NULL,
    mark bytea NOT NULL,
    at timestamp with time zone NOT NULL,
    CONSTRAINT evidence_pkey PRIMARY KEY (kind, subject, mark)
);
CREATE INDEX evidence_in_order ON evidence USING btree (kind, subject, at);

CREATE TABLE evidence_keys (
    kind text NOT NULL,
    subject text NOT NULL,
    key text NOT NULL,
    at timestamp with time zone NOT NULL,
    CONSTRAINT evidence_keys_pkey PRIMARY KEY (kind, subject, key)
);
CREATE INDEX evidence_keys_in_order ON evidence_keys USING btree (kind, subject, at);

CREATE TABLE evidence_read (
    kind text NOT NULL,
    at timestamp with time zone NOT NULL,
    CONSTRAINT evidence_read_pkey PRIMARY KEY (kind)
);

CREATE TABLE expectation_misses (
    expectation text NOT NULL,
    due_at timestamp with time zone NOT NULL,
    starts timestamp without time zone NOT NULL,
    key text NOT NULL,
    reason text NOT NULL,
    found_at timestamp with time zone NOT NULL,
    announced boolean NOT NULL,
    open boolean NOT NULL,
    came_at timestamp with time zone,
    CONSTRAINT expectation_misses_came CHECK (((came_at IS NULL) OR (NOT open))),
    CONSTRAINT expectation_misses_expectation_fkey FOREIGN KEY (expectation) REFERENCES expectations(id) ON DELETE CASCADE,
    CONSTRAINT expectation_misses_pkey PRIMARY KEY (expectation, due_at)
);

CREATE TABLE expectations (
    id text NOT NULL,
    app text NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    definition jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    since timestamp with time zone NOT NULL,
    due_at timestamp with time zone,
    starts timestamp without time zone,
    opens_at timestamp with time zone,
    learning boolean NOT NULL DEFAULT false,
    recent bigint[] NOT NULL DEFAULT '{}'::bigint[],
    open_misses integer NOT NULL DEFAULT 0,
    stirred boolean NOT NULL DEFAULT false,
    stopped text,
    CONSTRAINT expectations_kind_check CHECK ((kind = ANY (ARRAY['dataset'::text, 'schedule'::text]))),
    CONSTRAINT expectations_period CHECK (((due_at IS NULL) = (starts IS NULL))),
    CONSTRAINT expectations_pkey PRIMARY KEY (id),
    CONSTRAINT expectations_stopped CHECK (((stopped IS NULL) OR (due_at IS NULL)))
);
CREATE INDEX expectations_due ON expectations USING btree (kind, due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX expectations_missed ON expectations USING btree (id) WHERE (open_misses > 0);
CREATE INDEX expectations_of_app ON expectations USING btree (app);
CREATE INDEX expectations_of_subject ON expectations USING btree (kind, subject);
CREATE INDEX expectations_stirred ON expectations USING btree (id) WHERE stirred;

CREATE TABLE failing (
    owner text NOT NULL,
    run text NOT NULL,
    since timestamp with time zone NOT NULL,
    CONSTRAINT failing_pkey PRIMARY KEY (owner)
);

CREATE TABLE file_set_commits (
    dataset text NOT NULL,
    number bigint NOT NULL,
    commit_id text NOT NULL,
    manifest text NOT NULL,
    CONSTRAINT file_set_commits_dataset_commit_id_key UNIQUE (dataset, commit_id),
    CONSTRAINT file_set_commits_dataset_fkey FOREIGN KEY (dataset) REFERENCES file_sets(dataset) ON DELETE CASCADE,
    CONSTRAINT file_set_commits_number_check CHECK ((number > 0)),
    CONSTRAINT file_set_commits_pkey PRIMARY KEY (dataset, number)
);

CREATE TABLE file_set_epochs (
    dataset text NOT NULL,
    job text NOT NULL,
    attempt integer NOT NULL,
    CONSTRAINT file_set_epochs_attempt_check CHECK ((attempt > 0)),
    CONSTRAINT file_set_epochs_pkey PRIMARY KEY (dataset, job)
);

CREATE TABLE file_sets (
    dataset text NOT NULL,
    location text NOT NULL,
    commits bigint NOT NULL,
    CONSTRAINT file_sets_commits_check CHECK ((commits > 0)),
    CONSTRAINT file_sets_pkey PRIMARY KEY (dataset)
);

CREATE TABLE gate_waits (
    job text NOT NULL,
    cluster text NOT NULL,
    terms jsonb NOT NULL,
    satisfied_at timestamp with time zone NOT NULL,
    CONSTRAINT gate_waits_pkey PRIMARY KEY (job)
);
CREATE INDEX gate_waits_in_order ON gate_waits USING btree (cluster, terms, satisfied_at, job);

CREATE TABLE gates (
    cluster text NOT NULL,
    terms jsonb NOT NULL,
    open boolean NOT NULL DEFAULT false,
    since timestamp with time zone,
    at timestamp with time zone,
    started integer NOT NULL DEFAULT 0,
    CONSTRAINT gates_cluster_fkey FOREIGN KEY (cluster) REFERENCES clusters(name),
    CONSTRAINT gates_pkey PRIMARY KEY (cluster, terms)
);

CREATE TABLE graph_nodes (
    app text NOT NULL,
    task text NOT NULL,
    job_id text NOT NULL,
    state text NOT NULL,
    reported text NOT NULL,
    groups integer[] NOT NULL,
    round integer NOT NULL,
    again boolean NOT NULL,
    generation bigint NOT NULL,
    job text,
    reason text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    unreported boolean NOT NULL GENERATED ALWAYS AS ((reported <> CASE state WHEN 'COMPLETED'::text THEN 'complete'::text WHEN 'FAILED'::text THEN 'failed'::text WHEN 'UPSTREAM_FAILED'::text THEN 'failed'::text WHEN 'SKIPPED'::text THEN 'skipped'::text WHEN 'UPSTREAM_SKIPPED'::text THEN 'skipped'::text ELSE 'missing'::text END)) STORED,
    held boolean NOT NULL DEFAULT false,
    report_at timestamp with time zone NOT NULL DEFAULT '-infinity'::timestamp with time zone,
    stuck text[] NOT NULL DEFAULT '{}'::text[],
    CONSTRAINT graph_nodes_app_fkey FOREIGN KEY (app) REFERENCES graphs(app),
    CONSTRAINT graph_nodes_check CHECK (((state <> 'QUEUED'::text) OR (job IS NOT NULL))),
    CONSTRAINT graph_nodes_groups_check CHECK (((cardinality(groups) % 4) = 0)),
    CONSTRAINT graph_nodes_job_key UNIQUE (job),
    CONSTRAINT graph_nodes_pkey PRIMARY KEY (app, task, job_id),
    CONSTRAINT graph_nodes_reported_check CHECK ((reported = ANY (ARRAY['missing'::text, 'complete'::text, 'failed'::text, 'skipped'::text]))),
    CONSTRAINT graph_nodes_round_check CHECK ((round >= 0)),
    CONSTRAINT graph_nodes_state_check CHECK ((state = ANY (ARRAY['WAITING'::text, 'QUEUED'::text, 'COMPLETED'::text, 'FAILED'::text, 'SKIPPED'::text, 'UPSTREAM_FAILED'::text, 'UPSTREAM_SKIPPED'::text])))
);
CREATE INDEX graph_nodes_ended ON graph_nodes USING btree (changed_at, app, task, job_id) WHERE ((state <> ALL (ARRAY['WAITING'::text, 'QUEUED'::text])) AND (NOT unreported));
CREATE INDEX graph_nodes_generation ON graph_nodes USING btree (app, generation);
CREATE INDEX graph_nodes_held ON graph_nodes USING btree (app, task, job_id) WHERE (held AND (state = 'WAITING'::text));
CREATE INDEX graph_nodes_state ON graph_nodes USING btree (app, task, state, job_id);
CREATE INDEX graph_nodes_stuck ON graph_nodes USING btree (report_at) WHERE (stuck <> '{}'::text[]);
CREATE INDEX graph_nodes_to_report ON graph_nodes USING btree (report_at, changed_at) WHERE unreported;

CREATE TABLE graphs (
    app text NOT NULL,
    generation bigint NOT NULL,
    tasks text NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT graphs_generation_check CHECK ((generation > 0)),
    CONSTRAINT graphs_pkey PRIMARY KEY (app)
);

CREATE TABLE group_slots (
    group_name text NOT NULL,
    run text NOT NULL,
    weight integer NOT NULL,
    CONSTRAINT group_slots_group_name_fkey FOREIGN KEY (group_name) REFERENCES groups(name),
    CONSTRAINT group_slots_pkey PRIMARY KEY (run, group_name),
    CONSTRAINT group_slots_run_fkey FOREIGN KEY (run) REFERENCES runs(id) ON DELETE CASCADE,
    CONSTRAINT group_slots_weight_check CHECK ((weight > 0))
);
CREATE INDEX group_slots_by_group ON group_slots USING btree (group_name);

CREATE TABLE group_waits (
    group_name text NOT NULL,
    job text NOT NULL,
    satisfied_at timestamp with time zone NOT NULL,
    weight integer,
    max_slots integer,
    slots_only boolean NOT NULL DEFAULT false,
    CONSTRAINT group_waits_group_name_fkey FOREIGN KEY (group_name) REFERENCES groups(name),
    CONSTRAINT group_waits_job_fkey FOREIGN KEY (job) REFERENCES jobs(id) ON DELETE CASCADE,
    CONSTRAINT group_waits_pkey PRIMARY KEY (job, group_name)
);
CREATE INDEX group_waits_in_order ON group_waits USING btree (group_name, satisfied_at, job);

CREATE TABLE groups (
    name text NOT NULL,
    slots integer,
    changed_at timestamp with time zone,
    age_s double precision,
    CONSTRAINT groups_age_s_check CHECK ((age_s >= (0)::double precision)),
    CONSTRAINT groups_pkey PRIMARY KEY (name),
    CONSTRAINT groups_slots_check CHECK ((slots >= 0))
);

CREATE TABLE history_readers (
    name text NOT NULL,
    "position" bigint NOT NULL,
    CONSTRAINT history_readers_pkey PRIMARY KEY (name),
    CONSTRAINT history_readers_position_check CHECK (("position" >= 0))
);

CREATE TABLE installation_key (
    single boolean NOT NULL DEFAULT true,
    key bytea NOT NULL,
    CONSTRAINT installation_key_key_check CHECK ((octet_length(key) = 32)),
    CONSTRAINT installation_key_pkey PRIMARY KEY (single),
    CONSTRAINT installation_key_single_check CHECK (single)
);

CREATE TABLE intake_positions (
    topic text NOT NULL,
    partition integer NOT NULL,
    "position" bigint NOT NULL,
    CONSTRAINT intake_positions_pkey PRIMARY KEY (topic, partition)
);

CREATE TABLE jobs (
    id text NOT NULL,
    schedule text,
    generation bigint NOT NULL,
    sequence bigint NOT NULL,
    program text,
    state text NOT NULL,
    reason text NOT NULL DEFAULT ''::text,
    satisfied_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    next_check_at timestamp with time zone,
    waiting jsonb,
    checked_at timestamp with time zone,
    ready jsonb NOT NULL,
    joined text,
    ended_at timestamp with time zone,
    command text,
    command_reason text,
    missed text[],
    spared_at timestamp with time zone,
    failures integer NOT NULL DEFAULT 0,
    submitted boolean NOT NULL DEFAULT false,
    muted boolean NOT NULL DEFAULT false,
    backfill text,
    spans text DEFAULT CASE WHEN (current_setting('streamsched.spans'::text, true) = 'on'::text) THEN 'due'::text ELSE NULL::text END,
    ancestors jsonb,
    CONSTRAINT jobs_check CHECK (((ended_at IS NOT NULL) = (state <> ALL (ARRAY['PENDING_CONSTRAINT'::text, 'PENDING_LAUNCH'::text])))),
    CONSTRAINT jobs_check1 CHECK (((joined IS NOT NULL) = (state = 'COALESCED'::text))),
    CONSTRAINT jobs_check2 CHECK (((program IS NOT NULL) OR (state = 'OBSOLETE'::text))),
    CONSTRAINT jobs_check3 CHECK (((next_check_at IS NULL) OR (state = 'PENDING_CONSTRAINT'::text))),
    CONSTRAINT jobs_id CHECK ( CASE WHEN submitted THEN starts_with(id, (COALESCE(schedule, program) || '.'::text)) ELSE (id = ((((schedule || '.'::text) || generation) || '.'::text) || sequence)) END),
    CONSTRAINT jobs_joined_fkey FOREIGN KEY (joined) REFERENCES jobs(id),
    CONSTRAINT jobs_owner CHECK (((schedule IS NOT NULL) OR (submitted AND (program IS NOT NULL)))),
    CONSTRAINT jobs_pkey PRIMARY KEY (id),
    CONSTRAINT jobs_spans CHECK ((spans = ANY (ARRAY['due'::text, 'sent'::text, 'dropped'::text]))),
    CONSTRAINT jobs_state_check CHECK ((state = ANY (ARRAY['PENDING_CONSTRAINT'::text, 'PENDING_LAUNCH'::text, 'LAUNCHED'::text, 'ABORTED'::text, 'TIMED_OUT'::text, 'OBSOLETE'::text, 'COALESCED'::text, 'LAUNCH_FAILED'::text])))
) WITH (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=2000);
CREATE INDEX jobs_by_ancestor ON jobs USING gin (ancestors jsonb_path_ops) WITH (fastupdate=off) WHERE (ancestors IS NOT NULL);
CREATE INDEX jobs_due ON jobs USING btree (next_check_at, program) WHERE (state = 'PENDING_CONSTRAINT'::text);
CREATE INDEX jobs_heeding_runs ON jobs USING btree (COALESCE(program, ''::text), satisfied_at, sequence) WHERE ((state = 'PENDING_CONSTRAINT'::text) AND (next_check_at IS DISTINCT FROM '1970-01-01 00:00:00+00'::timestamp with time zone) AND (spared_at IS DISTINCT FROM checked_at));
CREATE INDEX jobs_joined ON jobs USING btree (joined) WHERE (joined IS NOT NULL);
CREATE INDEX jobs_of_schedule ON jobs USING btree (schedule, created_at DESC, id DESC);
CREATE INDEX jobs_recent ON jobs USING btree (created_at DESC, id DESC);
CREATE INDEX jobs_spans_due ON jobs USING btree (ended_at) WHERE ((spans = 'due'::text) AND (ended_at IS NOT NULL));
CREATE INDEX jobs_waiting_by_program ON jobs USING btree (program, satisfied_at, sequence, next_check_at) WHERE (state = 'PENDING_CONSTRAINT'::text);
CREATE INDEX jobs_waiting_by_schedule ON jobs USING btree (schedule) WHERE (state = ANY (ARRAY['PENDING_CONSTRAINT'::text, 'PENDING_LAUNCH'::text]));
CREATE TRIGGER job_ended AFTER UPDATE OF state ON jobs FOR EACH ROW WHEN (((new.state = ANY (ARRAY['ABORTED'::text, 'TIMED_OUT'::text, 'OBSOLETE'::text, 'COALESCED'::text, 'LAUNCH_FAILED'::text])) AND (old.state <> new.state))) EXECUTE FUNCTION note_node_job_end_v1();

CREATE TABLE jobs_history (
    done_at timestamp with time zone NOT NULL,
    id text NOT NULL,
    schedule text,
    state text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    runs text[] NOT NULL,
    record jsonb NOT NULL
) PARTITION BY RANGE (done_at);
CREATE INDEX jobs_history_by_id ON ONLY jobs_history USING btree (id);
CREATE INDEX jobs_history_of_schedule ON ONLY jobs_history USING btree (schedule, created_at DESC, id DESC);
CREATE INDEX jobs_history_recent ON ONLY jobs_history USING btree (created_at DESC, id DESC);

CREATE TABLE jobs_spent (
    schedule text NOT NULL,
    generation bigint NOT NULL,
    sequence bigint NOT NULL,
    CONSTRAINT jobs_spent_pkey PRIMARY KEY (schedule)
);

CREATE TABLE lane_waits (
    job text NOT NULL,
    schedule text NOT NULL,
    scope text NOT NULL,
    key_hash text NOT NULL,
    satisfied_at timestamp with time zone NOT NULL,
    sequence bigint NOT NULL,
    CONSTRAINT lane_waits_pkey PRIMARY KEY (job, scope),
    CONSTRAINT lane_waits_scope CHECK ((scope = ANY (ARRAY['schedule'::text, 'key'::text])))
);
CREATE INDEX lane_waits_in_order ON lane_waits USING btree (schedule, scope, key_hash, satisfied_at, sequence, job);

CREATE TABLE launchers (
    runner text NOT NULL,
    since timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    host_places integer,
    cluster_places integer,
    CONSTRAINT launchers_pkey PRIMARY KEY (runner)
);

CREATE TABLE leases (
    name text NOT NULL,
    owner text NOT NULL,
    epoch bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    wanted_by text,
    format integer NOT NULL DEFAULT 3,
    CONSTRAINT leases_format_check CHECK ((format > 0)),
    CONSTRAINT leases_pkey PRIMARY KEY (name)
);

CREATE TABLE lineage_ends (
    program text NOT NULL,
    run text NOT NULL,
    outcome text NOT NULL,
    at timestamp with time zone NOT NULL,
    CONSTRAINT lineage_ends_outcome_check CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'failed'::text, 'killed'::text]))),
    CONSTRAINT lineage_ends_pkey PRIMARY KEY (program, run)
);
CREATE INDEX lineage_ends_by_age ON lineage_ends USING btree (at);

CREATE TABLE lines (
    job text NOT NULL,
    pool text NOT NULL,
    turn_at timestamp with time zone NOT NULL,
    sequence bigint NOT NULL,
    CONSTRAINT lines_pkey PRIMARY KEY (job)
);
CREATE INDEX lines_in_order ON lines USING btree (pool, turn_at, sequence, job);

CREATE TABLE meters (
    scope text NOT NULL,
    max_runs integer NOT NULL,
    per interval NOT NULL,
    burst integer NOT NULL,
    remaining double precision NOT NULL,
    at timestamp with time zone NOT NULL,
    full_at timestamp with time zone NOT NULL,
    CONSTRAINT meters_burst_check CHECK ((burst > 0)),
    CONSTRAINT meters_max_runs_check CHECK ((max_runs > 0)),
    CONSTRAINT meters_pkey PRIMARY KEY (scope, max_runs, per, burst)
);
CREATE INDEX meters_full ON meters USING btree (full_at);

CREATE TABLE namespace_grants (
    owner text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    grantee text NOT NULL,
    state text NOT NULL,
    details boolean NOT NULL DEFAULT false,
    reason text NOT NULL DEFAULT ''::text,
    changed_by text NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT namespace_grants_check CHECK ((owner <> grantee)),
    CONSTRAINT namespace_grants_check1 CHECK (((state = 'granted'::text) OR (NOT details))),
    CONSTRAINT namespace_grants_kind_check CHECK ((kind = ANY (ARRAY['dataset'::text, 'stream'::text, 'event'::text, 'program'::text, 'group'::text, 'pool'::text]))),
    CONSTRAINT namespace_grants_pkey PRIMARY KEY (owner, kind, name, grantee),
    CONSTRAINT namespace_grants_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'granted'::text, 'refused'::text])))
);
CREATE INDEX namespace_grants_grantee ON namespace_grants USING btree (grantee, owner);

CREATE TABLE namespaces (
    name text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT namespaces_pkey PRIMARY KEY (name)
);

CREATE TABLE node_ends (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    job text NOT NULL,
    CONSTRAINT node_ends_pkey PRIMARY KEY (id)
);
CREATE INDEX node_ends_job ON node_ends USING btree (job);

CREATE TABLE notice_recipients (
    id text NOT NULL,
    app text NOT NULL,
    place integer NOT NULL,
    definition jsonb NOT NULL,
    first bigint,
    sent_at timestamp with time zone,
    CONSTRAINT notice_recipients_pkey PRIMARY KEY (id)
);
CREATE INDEX notice_recipients_of_app ON notice_recipients USING btree (app);
CREATE INDEX notice_recipients_waiting ON notice_recipients USING btree (sent_at) WHERE (first IS NOT NULL);

CREATE TABLE open_keys (
    schedule text NOT NULL,
    key text NOT NULL,
    generation bigint NOT NULL,
    state jsonb NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    whole text,
    CONSTRAINT open_keys_pkey PRIMARY KEY (schedule, key)
);

CREATE TABLE outbox (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    topic text NOT NULL,
    key text NOT NULL,
    value bytea,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT outbox_pkey PRIMARY KEY (id)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=2000);
CREATE TRIGGER outbox_written AFTER INSERT ON outbox FOR EACH STATEMENT EXECUTE FUNCTION notify_v1('outbox');

CREATE TABLE pauses (
    schedule text NOT NULL,
    generation bigint NOT NULL,
    mode text NOT NULL,
    until timestamp with time zone,
    note text NOT NULL DEFAULT ''::text,
    CONSTRAINT pauses_mode_check CHECK ((mode = ANY (ARRAY['keep'::text, 'drop'::text, 'drain'::text, 'backlog'::text]))),
    CONSTRAINT pauses_pkey PRIMARY KEY (schedule),
    CONSTRAINT pauses_schedule_fkey FOREIGN KEY (schedule) REFERENCES schedules(id) ON DELETE CASCADE
);
CREATE INDEX pauses_ending ON pauses USING btree (until) WHERE (until IS NOT NULL);

CREATE TABLE preferences (
    namespace text NOT NULL,
    arguments jsonb NOT NULL,
    reason text NOT NULL DEFAULT ''::text,
    changed_at timestamp with time zone,
    CONSTRAINT preferences_arguments_check CHECK ((jsonb_typeof(arguments) = 'object'::text)),
    CONSTRAINT preferences_pkey PRIMARY KEY (namespace)
);

CREATE TABLE processes (
    id text NOT NULL,
    role text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    release text NOT NULL,
    tzdata text NOT NULL,
    own_ahead_s double precision NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    CONSTRAINT processes_pkey PRIMARY KEY (id)
);

CREATE TABLE programs (
    id text NOT NULL,
    app text NOT NULL,
    definition jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT programs_app_fkey FOREIGN KEY (app) REFERENCES apps(id),
    CONSTRAINT programs_pkey PRIMARY KEY (id)
);
CREATE INDEX programs_by_app ON programs USING btree (app);
CREATE INDEX programs_by_bundle ON programs USING btree (((definition ->> 'bundle'::text))) WHERE (definition ? 'bundle'::text);
CREATE INDEX programs_by_profile ON programs USING btree (((definition ->> 'profile'::text))) WHERE (definition ? 'profile'::text);

CREATE TABLE quota_levels (
    namespace text NOT NULL,
    tokens double precision NOT NULL,
    at timestamp with time zone NOT NULL,
    CONSTRAINT quota_levels_pkey PRIMARY KEY (namespace)
);

CREATE TABLE quota_shares (
    namespace text NOT NULL,
    process text NOT NULL,
    tokens double precision NOT NULL,
    asked double precision NOT NULL,
    accepted double precision NOT NULL,
    at timestamp with time zone NOT NULL,
    CONSTRAINT quota_shares_pkey PRIMARY KEY (namespace, process)
) WITH (fillfactor=50);

CREATE TABLE quotas (
    namespace text NOT NULL,
    quota text NOT NULL,
    most bigint NOT NULL,
    reason text NOT NULL DEFAULT ''::text,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT quotas_most_check CHECK ((most >= 0)),
    CONSTRAINT quotas_pkey PRIMARY KEY (namespace, quota),
    CONSTRAINT quotas_quota_check CHECK ((quota = ANY (ARRAY['schedules'::text, 'accumulations'::text, 'runs'::text, 'events_per_second'::text, 'body_bytes'::text, 'shared_names'::text, 'webhooks'::text, 'log_bytes'::text])))
);

CREATE TABLE refused_spool_lines (
    host text NOT NULL,
    run text NOT NULL,
    lines bigint NOT NULL,
    reason text NOT NULL,
    at timestamp with time zone NOT NULL,
    CONSTRAINT refused_spool_lines_lines_check CHECK ((lines > 0)),
    CONSTRAINT refused_spool_lines_pkey PRIMARY KEY (host, run)
);
CREATE INDEX refused_spool_lines_by_time ON refused_spool_lines USING btree (at);

CREATE TABLE removed_programs (
    schedule text NOT NULL,
    program text NOT NULL,
    removed_at timestamp with time zone NOT NULL,
    removed_by text NOT NULL,
    CONSTRAINT removed_programs_pkey PRIMARY KEY (schedule, program)
);
CREATE INDEX removed_programs_by_program ON removed_programs USING btree (program);

CREATE TABLE room_shares (
    kind text NOT NULL,
    namespace text NOT NULL,
    pool text NOT NULL,
    served_at timestamp with time zone NOT NULL,
    CONSTRAINT room_shares_pkey PRIMARY KEY (kind, namespace, pool)
);

CREATE TABLE room_waits (
    job text NOT NULL,
    kind text NOT NULL,
    namespace text NOT NULL,
    pool text NOT NULL,
    turn_at timestamp with time zone NOT NULL,
    CONSTRAINT room_waits_job_fkey FOREIGN KEY (job) REFERENCES jobs(id) ON DELETE CASCADE,
    CONSTRAINT room_waits_pkey PRIMARY KEY (job)
);
CREATE INDEX room_waits_in_order ON room_waits USING btree (kind, namespace, pool, turn_at, job);

CREATE TABLE runs (
    id text NOT NULL,
    job text,
    attempt integer NOT NULL,
    program text NOT NULL,
    executable jsonb NOT NULL,
    arguments jsonb NOT NULL,
    state text NOT NULL,
    reason text NOT NULL DEFAULT ''::text,
    created_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    exit_code integer,
    spawns integer NOT NULL DEFAULT 0,
    spawn_at timestamp with time zone,
    runner text,
    heartbeat_at timestamp with time zone,
    stop_requested text,
    log_path text,
    stop_at_once boolean NOT NULL DEFAULT false,
    deadline_at timestamp with time zone,
    muted boolean NOT NULL DEFAULT false,
    start text,
    driver jsonb,
    taken_over boolean NOT NULL DEFAULT false,
    metrics jsonb,
    spans text DEFAULT CASE WHEN (current_setting('streamsched.spans'::text, true) = 'on'::text) THEN 'due'::text ELSE NULL::text END,
    failure text,
    pool text,
    turn_at timestamp with time zone,
    commits jsonb,
    fence text,
    fence_at timestamp with time zone,
    fence_tries integer NOT NULL DEFAULT 0,
    CONSTRAINT runs_attempt_check CHECK ((attempt > 0)),
    CONSTRAINT runs_check CHECK (((ended_at IS NOT NULL) = (state = ANY (ARRAY['COMPLETED'::text, 'FAILED'::text, 'KILLED'::text, 'LOST'::text])))),
    CONSTRAINT runs_check1 CHECK (((spawn_at IS NOT NULL) = (state = 'PENDING'::text))),
    CONSTRAINT runs_check2 CHECK (((runner IS NOT NULL) OR (state <> ALL (ARRAY['STARTING'::text, 'RUNNING'::text, 'SUSPENDED'::text, 'COMPLETED'::text, 'LOST'::text])))),
    CONSTRAINT runs_job_attempt_key UNIQUE (job, attempt),
    CONSTRAINT runs_job_fkey FOREIGN KEY (job) REFERENCES jobs(id),
    CONSTRAINT runs_pkey PRIMARY KEY (id),
    CONSTRAINT runs_spans CHECK ((spans = ANY (ARRAY['due'::text, 'sent'::text, 'dropped'::text]))),
    CONSTRAINT runs_state_check CHECK ((state = ANY (ARRAY['PENDING'::text, 'STARTING'::text, 'RUNNING'::text, 'SUSPENDED'::text, 'COMPLETED'::text, 'FAILED'::text, 'KILLED'::text, 'LOST'::text])))
) WITH (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=2000);
CREATE INDEX runs_active_by_program ON runs USING btree (program, created_at) WHERE (state = ANY (ARRAY['PENDING'::text, 'STARTING'::text, 'RUNNING'::text, 'SUSPENDED'::text]));
CREATE INDEX runs_beating ON runs USING btree (heartbeat_at) WHERE (state = ANY (ARRAY['STARTING'::text, 'RUNNING'::text, 'SUSPENDED'::text]));
CREATE INDEX runs_by_bundle ON runs USING btree (((executable ->> 'bundle'::text))) WHERE ((executable ? 'bundle'::text) AND (state = ANY (ARRAY['PENDING'::text, 'STARTING'::text, 'RUNNING'::text, 'SUSPENDED'::text])));
CREATE INDEX runs_by_program ON runs USING btree (program, created_at DESC);
CREATE INDEX runs_completed_by_program ON runs USING btree (program, ended_at DESC) WHERE (state = 'COMPLETED'::text);
CREATE INDEX runs_condemned ON runs USING btree (id) WHERE ((state = 'PENDING'::text) AND (stop_requested IS NOT NULL));
CREATE INDEX runs_in_room ON runs USING btree ((
CASE
    WHEN ((executable ->> 'deploy_mode'::text) = 'cluster'::text) THEN 'cluster'::text
    ELSE 'host'::text
END), split_part(program, '.'::text, 1), COALESCE(pool, ''::text)) WHERE ((state = ANY (ARRAY['PENDING'::text, 'STARTING'::text, 'RUNNING'::text, 'SUSPENDED'::text])) AND ((executable ->> 'type'::text) <> ALL (ARRAY['http'::text, 'publish'::text, 'enqueue'::text])) AND ((state <> 'PENDING'::text) OR (spawns > 0)));
CREATE INDEX runs_inline_of_runner ON runs USING btree (runner) WHERE ((runner IS NOT NULL) AND (state = ANY (ARRAY['PENDING'::text, 'STARTING'::text, 'RUNNING'::text, 'SUSPENDED'::text])) AND ((executable ->> 'type'::text) = ANY (ARRAY['http'::text, 'publish'::text, 'enqueue'::text])));
CREATE UNIQUE INDEX runs_one_per_job ON runs USING btree (job) WHERE (state <> ALL (ARRAY['FAILED'::text, 'KILLED'::text, 'LOST'::text]));
CREATE INDEX runs_overdue ON runs USING btree (deadline_at) WHERE ((deadline_at IS NOT NULL) AND (stop_requested IS NULL) AND (state = ANY (ARRAY['STARTING'::text, 'RUNNING'::text, 'SUSPENDED'::text])));
CREATE INDEX runs_recent ON runs USING btree (created_at DESC, id DESC);
CREATE INDEX runs_spans_due ON runs USING btree (ended_at) WHERE ((spans = 'due'::text) AND (ended_at IS NOT NULL));
CREATE INDEX runs_to_fence ON runs USING btree (fence_at) WHERE (fence_at IS NOT NULL);
CREATE INDEX runs_to_give_runner ON runs USING btree (spawn_at) WHERE ((state = 'PENDING'::text) AND ((executable ->> 'type'::text) <> ALL (ARRAY['http'::text, 'publish'::text, 'enqueue'::text])));
CREATE INDEX runs_to_spawn ON runs USING btree (spawn_at) WHERE (state = 'PENDING'::text);
CREATE INDEX runs_to_take_inline ON runs USING btree (spawn_at) WHERE ((state = 'PENDING'::text) AND ((executable ->> 'type'::text) = ANY (ARRAY['http'::text, 'publish'::text, 'enqueue'::text])));
CREATE INDEX runs_unsuccessful ON runs USING btree (created_at DESC, id DESC, state) WHERE (state = ANY (ARRAY['FAILED'::text, 'KILLED'::text, 'LOST'::text]));
CREATE INDEX runs_unsuccessful_of_program ON runs USING btree (program, created_at DESC, id DESC, state) WHERE (state = ANY (ARRAY['FAILED'::text, 'KILLED'::text, 'LOST'::text]));
CREATE INDEX runs_wait_for_room ON runs USING btree ((
CASE
    WHEN ((executable ->> 'deploy_mode'::text) = 'cluster'::text) THEN 'cluster'::text
    ELSE 'host'::text
END), split_part(program, '.'::text, 1), COALESCE(pool, ''::text), COALESCE(turn_at, created_at), id, spawn_at) WHERE ((state = 'PENDING'::text) AND ((executable ->> 'type'::text) <> ALL (ARRAY['http'::text, 'publish'::text, 'enqueue'::text])) AND (spawn_at < 'infinity'::timestamp with time zone));
CREATE TRIGGER run_ended AFTER UPDATE OF state ON runs FOR EACH ROW WHEN (((new.job IS NOT NULL) AND (new.state = ANY (ARRAY['COMPLETED'::text, 'FAILED'::text, 'KILLED'::text, 'LOST'::text])) AND (old.state <> new.state))) EXECUTE FUNCTION note_node_run_end_v1();

CREATE TABLE runs_history (
    done_at timestamp with time zone NOT NULL,
    id text NOT NULL,
    program text NOT NULL,
    schedule text,
    state text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    record jsonb NOT NULL
) PARTITION BY RANGE (done_at);
CREATE INDEX runs_history_by_id ON ONLY runs_history USING btree (id);
CREATE INDEX runs_history_of_program ON ONLY runs_history USING btree (program, created_at DESC, id DESC);
CREATE INDEX runs_history_recent ON ONLY runs_history USING btree (created_at DESC, id DESC);
CREATE INDEX runs_history_unsuccessful ON ONLY runs_history USING btree (created_at DESC, id DESC, state) WHERE (state = ANY (ARRAY['FAILED'::text, 'KILLED'::text, 'LOST'::text]));
CREATE INDEX runs_history_unsuccessful_of_program ON ONLY runs_history USING btree (program, created_at DESC, id DESC, state) WHERE (state = ANY (ARRAY['FAILED'::text, 'KILLED'::text, 'LOST'::text]));

CREATE TABLE schedule_halts (
    schedule text NOT NULL,
    halt jsonb NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT schedule_halts_pkey PRIMARY KEY (schedule)
);

CREATE TABLE schedule_versions (
    schedule text NOT NULL,
    generation bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    reason text NOT NULL,
    definition jsonb NOT NULL,
    CONSTRAINT schedule_versions_generation_check CHECK ((generation > 0)),
    CONSTRAINT schedule_versions_pkey PRIMARY KEY (schedule, generation)
);

CREATE TABLE schedules (
    id text NOT NULL,
    app text NOT NULL,
    program text NOT NULL,
    definition jsonb NOT NULL,
    generation bigint NOT NULL,
    enabled boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    deleted_at timestamp with time zone,
    kept_in bigint,
    kept_from bigint,
    oldest_valid_generation bigint NOT NULL GENERATED ALWAYS AS ( CASE WHEN (kept_in = generation) THEN kept_from WHEN enabled THEN generation ELSE (generation + 1) END) STORED,
    pool text GENERATED ALWAYS AS ((jsonb_path_query_first(definition, '$."constraints"[*]?(@."type" == "POOL")."pool"'::jsonpath) #>> '{}'::text[])) STORED,
    priority integer GENERATED ALWAYS AS ((jsonb_path_query_first(definition, '$."constraints"[*]?(@."type" == "POOL")."priority"'::jsonpath))::integer) STORED,
    priority_set integer,
    draining_in bigint,
    resumed_at timestamp with time zone,
    affinity bigint,
    admits boolean NOT NULL GENERATED ALWAYS AS ((enabled OR COALESCE((draining_in = generation), false))) STORED,
    CONSTRAINT schedules_affinity_check CHECK (((affinity >= 0) AND (affinity <= '4294967295'::bigint))),
    CONSTRAINT schedules_app_fkey FOREIGN KEY (app) REFERENCES apps(id),
    CONSTRAINT schedules_check CHECK (((deleted_at IS NULL) OR (NOT enabled))),
    CONSTRAINT schedules_generation_check CHECK ((generation > 0)),
    CONSTRAINT schedules_kept CHECK (((kept_in IS NULL) = (kept_from IS NULL))),
    CONSTRAINT schedules_pkey PRIMARY KEY (id),
    CONSTRAINT schedules_priority_set_check CHECK (((priority_set >= '-1000'::integer) AND (priority_set <= 1000)))
);
CREATE INDEX schedules_by_affinity ON schedules USING btree (affinity) WHERE ((deleted_at IS NULL) AND (affinity IS NOT NULL));
CREATE INDEX schedules_by_app ON schedules USING btree (app, id);
CREATE INDEX schedules_by_awaited_program ON schedules USING gin (jsonb_path_query_array(definition, '$."trigger".**."programId"'::jsonpath) jsonb_path_ops) WHERE (deleted_at IS NULL);
CREATE INDEX schedules_by_program ON schedules USING btree (program) WHERE (deleted_at IS NULL);
CREATE INDEX schedules_joining ON schedules USING btree (id) WHERE ((deleted_at IS NULL) AND jsonb_path_exists(definition, '$."trigger".**."runOf"'::jsonpath));
CREATE INDEX schedules_to_forget ON schedules USING btree (deleted_at, id) WHERE (deleted_at IS NOT NULL);

CREATE TABLE shard_reports (
    shard integer NOT NULL,
    worker text NOT NULL,
    epoch bigint NOT NULL,
    report jsonb NOT NULL,
    reported_at timestamp with time zone NOT NULL,
    CONSTRAINT shard_reports_pkey PRIMARY KEY (shard)
) WITH (fillfactor=50);

CREATE TABLE shared_names (
    kind text NOT NULL,
    name text NOT NULL,
    namespace text NOT NULL,
    since timestamp with time zone NOT NULL,
    CONSTRAINT shared_names_kind_check CHECK ((kind = ANY (ARRAY['group'::text, 'pool'::text]))),
    CONSTRAINT shared_names_pkey PRIMARY KEY (kind, name)
);
CREATE INDEX shared_names_namespace ON shared_names USING btree (namespace);

CREATE TABLE spark_profiles (
    namespace text NOT NULL,
    name text NOT NULL,
    definition jsonb NOT NULL,
    reason text NOT NULL DEFAULT ''::text,
    changed_at timestamp with time zone NOT NULL,
    shell boolean NOT NULL DEFAULT true,
    CONSTRAINT spark_profiles_definition_check CHECK ((jsonb_typeof(definition) = 'object'::text)),
    CONSTRAINT spark_profiles_pkey PRIMARY KEY (namespace, name)
);
CREATE INDEX spark_profiles_by_name ON spark_profiles USING btree (name);

CREATE TABLE task_lanes (
    id text NOT NULL,
    partition integer NOT NULL,
    queue text NOT NULL,
    name text NOT NULL,
    ready_at timestamp with time zone,
    in_flight text,
    generation bigint,
    started_at timestamp with time zone,
    CONSTRAINT task_lanes_in_flight CHECK ((((in_flight IS NULL) = (ready_at IS NOT NULL)) AND ((in_flight IS NULL) = (generation IS NULL)) AND ((in_flight IS NULL) = (started_at IS NULL)))),
    CONSTRAINT task_lanes_partition CHECK (((partition >= 0) AND (partition <= 255))),
    CONSTRAINT task_lanes_pkey PRIMARY KEY (id)
) WITH (autovacuum_vacuum_scale_factor=0.05);
CREATE INDEX task_lanes_ready ON task_lanes USING btree (queue, partition, ready_at) WHERE (ready_at IS NOT NULL);
CREATE INDEX task_lanes_started ON task_lanes USING btree (queue, partition) WHERE (in_flight IS NOT NULL);

CREATE TABLE task_layout (
    sole boolean NOT NULL DEFAULT true,
    partitions integer NOT NULL,
    wanted integer NOT NULL,
    settled boolean NOT NULL,
    CONSTRAINT task_layout_partitions CHECK (((partitions >= 1) AND (partitions <= 256))),
    CONSTRAINT task_layout_pkey PRIMARY KEY (sole),
    CONSTRAINT task_layout_sole CHECK (sole),
    CONSTRAINT task_layout_wanted CHECK (((wanted >= 1) AND (wanted <= 256)))
);

CREATE TABLE task_owners (
    id text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    reads integer NOT NULL DEFAULT 3,
    CONSTRAINT task_owners_pkey PRIMARY KEY (id)
);

CREATE TABLE task_partitions (
    partition integer NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT task_partitions_number CHECK (((partition >= 0) AND (partition <= 255))),
    CONSTRAINT task_partitions_pkey PRIMARY KEY (partition)
);

CREATE TABLE task_queues (
    name text NOT NULL,
    policy jsonb NOT NULL,
    dedupe interval NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    version bigint NOT NULL DEFAULT nextval('task_generations'::regclass),
    tokens double precision,
    tokens_at timestamp with time zone,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT task_queues_name CHECK (((length(name) >= 1) AND (length(name) <= 255))),
    CONSTRAINT task_queues_pkey PRIMARY KEY (name),
    CONSTRAINT task_queues_tokens CHECK (((tokens IS NULL) = (tokens_at IS NULL)))
);

CREATE TABLE task_streams (
    owner text NOT NULL,
    url text NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    CONSTRAINT task_streams_pkey PRIMARY KEY (owner),
    CONSTRAINT task_streams_url CHECK (((length(url) >= 1) AND (length(url) <= 2000)))
);

CREATE TABLE tasks (
    id text NOT NULL,
    lane_id text NOT NULL,
    queue text NOT NULL,
    lane text NOT NULL,
    key text NOT NULL,
    state text NOT NULL,
    due_at timestamp with time zone NOT NULL,
    planned_at timestamp with time zone NOT NULL,
    next_at timestamp with time zone NOT NULL,
    generation bigint NOT NULL,
    fired integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    interruptions integer NOT NULL DEFAULT 0,
    options jsonb,
    data bytea NOT NULL,
    content_type text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    error text NOT NULL DEFAULT ''::text,
    attempts jsonb NOT NULL DEFAULT '[]'::jsonb,
    losses integer NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    unhandled bigint NOT NULL DEFAULT 0,
    CONSTRAINT tasks_counts CHECK (((fired >= 0) AND (failures >= 0) AND (interruptions >= 0))),
    CONSTRAINT tasks_losses CHECK ((losses >= 0)),
    CONSTRAINT tasks_never_early CHECK ((next_at >= due_at)),
    CONSTRAINT tasks_pkey PRIMARY KEY (id),
    CONSTRAINT tasks_state CHECK ((state = ANY (ARRAY['WAITING'::text, 'RETRYING'::text])))
) WITH (autovacuum_vacuum_scale_factor=0.05);
CREATE INDEX tasks_by_queue ON tasks USING btree (queue, due_at, id);
CREATE INDEX tasks_in_order ON tasks USING btree (lane_id, ((state = 'WAITING'::text)), due_at, key);
CREATE UNIQUE INDEX tasks_one_started ON tasks USING btree (lane_id) WHERE (state = 'RETRYING'::text);

CREATE TABLE tasks_history (
    at timestamp with time zone NOT NULL,
    id text NOT NULL,
    queue text NOT NULL,
    lane text NOT NULL,
    key text NOT NULL,
    state text NOT NULL,
    final boolean NOT NULL,
    due_at timestamp with time zone NOT NULL,
    record jsonb NOT NULL,
    CONSTRAINT tasks_history_state CHECK ((state = ANY (ARRAY['SUCCEEDED'::text, 'FAILED'::text, 'EXPIRED'::text, 'CANCELLED'::text, 'DROPPED'::text])))
) PARTITION BY RANGE (at);
CREATE INDEX tasks_history_by_id ON ONLY tasks_history USING btree (id, at);
CREATE INDEX tasks_history_recent ON ONLY tasks_history USING btree (queue, at DESC, id DESC);

CREATE TABLE tasks_history_rest PARTITION OF tasks_history DEFAULT;

CREATE TABLE ticks_reviewed (
    one boolean NOT NULL DEFAULT true,
    tzdata text NOT NULL,
    judgement bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    CONSTRAINT ticks_reviewed_one_check CHECK (one),
    CONSTRAINT ticks_reviewed_pkey PRIMARY KEY (one)
);

CREATE TABLE timers (
    schedule text NOT NULL,
    leaf text NOT NULL,
    generation bigint NOT NULL,
    due_at timestamp with time zone NOT NULL,
    tick_at timestamp with time zone,
    CONSTRAINT timers_pkey PRIMARY KEY (schedule, leaf),
    CONSTRAINT timers_schedule_fkey FOREIGN KEY (schedule) REFERENCES schedules(id) ON DELETE CASCADE
);
CREATE INDEX timers_due ON timers USING btree (due_at);

CREATE TABLE trigger_progress (
    schedule text NOT NULL,
    generation bigint NOT NULL,
    sequence bigint NOT NULL,
    progress jsonb NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT trigger_progress_pkey PRIMARY KEY (schedule)
);

CREATE TABLE verdict_totals (
    subject text NOT NULL,
    verdict text NOT NULL,
    late text NOT NULL,
    total bigint NOT NULL,
    last_at timestamp with time zone NOT NULL,
    CONSTRAINT verdict_totals_pkey PRIMARY KEY (subject, verdict, late)
) WITH (fillfactor=50);

CREATE TABLE verdicts (
    at timestamp with time zone NOT NULL,
    event text NOT NULL,
    source text NOT NULL,
    verdict text NOT NULL,
    subject text NOT NULL,
    generation bigint,
    next_job bigint,
    leaves text[],
    cells text[],
    late text,
    since timestamp with time zone,
    path text,
    reason text,
    why text,
    CONSTRAINT verdicts_check CHECK (((reason IS NOT NULL) = (verdict = 'dead_lettered'::text))),
    CONSTRAINT verdicts_of_schedules CHECK (((generation IS NOT NULL) = (verdict = ANY (ARRAY['counted'::text, 'replaced'::text, 'correction'::text, 'unmatched'::text, 'late'::text, 'disabled'::text, 'refused'::text, 'parked'::text])))),
    CONSTRAINT verdicts_verdict_known CHECK ((verdict = ANY (ARRAY['counted'::text, 'replaced'::text, 'correction'::text, 'unmatched'::text, 'duplicate'::text, 'late'::text, 'no_listener'::text, 'disabled'::text, 'refused'::text, 'parked'::text, 'dead_lettered'::text])))
) PARTITION BY RANGE (at);
CREATE INDEX verdicts_of_event ON ONLY verdicts USING btree (hashtextextended(event, (0)::bigint));

CREATE TABLE wakes (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    schedule text NOT NULL,
    cell bytea NOT NULL,
    generation bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    CONSTRAINT wakes_check CHECK ((due_at >= at)),
    CONSTRAINT wakes_pkey PRIMARY KEY (id)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=2000);
CREATE INDEX wakes_due ON wakes USING btree (due_at);
CREATE UNIQUE INDEX wakes_of_cell ON wakes USING btree (schedule, sha256(cell));

CREATE TABLE webhooks (
    id text NOT NULL,
    definition jsonb NOT NULL,
    secret text,
    "position" bigint NOT NULL,
    fed_at timestamp with time zone NOT NULL,
    enabled boolean NOT NULL DEFAULT true,
    changed_at timestamp with time zone NOT NULL,
    reason text NOT NULL DEFAULT ''::text,
    by_owner boolean NOT NULL DEFAULT true,
    created_at timestamp with time zone NOT NULL,
    created_by text NOT NULL,
    old_secret text,
    old_reference text,
    old_until timestamp with time zone,
    sent_at timestamp with time zone,
    CONSTRAINT webhooks_enabled_by_owner CHECK ((by_owner OR (NOT enabled))),
    CONSTRAINT webhooks_old_secret CHECK (((old_until IS NULL) = ((old_secret IS NULL) AND (old_reference IS NULL)))),
    CONSTRAINT webhooks_pkey PRIMARY KEY (id),
    CONSTRAINT webhooks_position CHECK (("position" >= 0))
);

CREATE TABLE work_decisions PARTITION OF decisions FOR VALUES IN ('job', 'run') PARTITION BY RANGE (at);
CREATE INDEX work_decisions_by_id ON ONLY work_decisions USING btree (id);
CREATE INDEX work_decisions_failures ON ONLY work_decisions USING btree (id) WHERE ((action = ANY (ARRAY['job.deadline_missed'::text, 'run.recovered'::text])) OR ((subject_kind = 'run'::text) AND ((detail -> 'failed'::text) IS NOT NULL)));
CREATE INDEX work_decisions_failures_of_subject ON ONLY work_decisions USING btree (subject, id) WHERE ((action = ANY (ARRAY['job.deadline_missed'::text, 'run.recovered'::text])) OR ((subject_kind = 'run'::text) AND ((detail -> 'failed'::text) IS NOT NULL)));

CREATE TABLE work_decisions_rest PARTITION OF work_decisions DEFAULT;

CREATE TABLE workers (
    id text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    reads integer NOT NULL DEFAULT 3,
    CONSTRAINT workers_pkey PRIMARY KEY (id),
    CONSTRAINT workers_reads_check CHECK ((reads > 0))
);
