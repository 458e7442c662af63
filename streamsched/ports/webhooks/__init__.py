"""Webhooks and the history that they follow."""
