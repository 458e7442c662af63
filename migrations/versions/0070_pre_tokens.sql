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
CREATE INDEX audit_by_target ON audit (target, number);

CREATE FUNCTION refuse_change_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit is append-only';
END
$$;
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();
