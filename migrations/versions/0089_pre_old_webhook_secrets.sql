-- The secret before the last one of a webhook signs beside it for a while, so that its receiver can follow (ADR 144).
ALTER TABLE webhooks
    ADD COLUMN IF NOT EXISTS old_secret text,            -- the generated one
    ADD COLUMN IF NOT EXISTS old_reference text,         -- or the reference to it
    ADD COLUMN IF NOT EXISTS old_until timestamptz;      -- until when; NULL: there is none
ALTER TABLE webhooks DROP CONSTRAINT IF EXISTS webhooks_old_secret;
ALTER TABLE webhooks ADD CONSTRAINT webhooks_old_secret
    CHECK ((old_until IS NULL) = (old_secret IS NULL AND old_reference IS NULL));
