"""Dapr's jobs in PostgreSQL: the tasks of an app's queue, and the instances that get them."""
