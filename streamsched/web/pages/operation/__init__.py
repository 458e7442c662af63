"""Pages for operators: limits, queues, webhooks, backfills, and the installation itself."""
