"""Commands of queues, lanes and tasks."""
