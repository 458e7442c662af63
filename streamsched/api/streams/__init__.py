"""Streams of the API: server-sent events."""
