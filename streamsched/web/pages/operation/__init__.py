"""Pages for operators: limits, queues, backfills, and the installation itself."""
