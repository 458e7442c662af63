"""Streams as sources of events: what a streaming query writes, and how a topic grows."""
