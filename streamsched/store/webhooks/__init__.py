"""Webhooks and the history they follow, in PostgreSQL."""
