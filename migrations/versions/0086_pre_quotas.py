"""Quotas of namespaces, and the levels of their events."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0086_pre"
down_revision = "0085_pre"


def upgrade() -> None:
    run_beside(__file__)
