"""Queues and tasks as JSON."""
