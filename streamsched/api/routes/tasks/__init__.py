"""Queues, lanes and tasks."""
