-- Quotas of names of groups and pools, of webhooks and of logs; the two first have defaults. See domain/quotas/quota.py.
ALTER TABLE quotas DROP CONSTRAINT quotas_quota_check;
ALTER TABLE quotas ADD CONSTRAINT quotas_quota_check CHECK (quota IN (
    'schedules', 'accumulations', 'runs', 'events_per_second', 'body_bytes', 'shared_names', 'webhooks', 'log_bytes'
));
