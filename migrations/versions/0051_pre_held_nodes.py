"""Nodes that wait for their schedule, and the retention of nodes."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0051_pre"
down_revision = "0050_pre"


def upgrade() -> None:
    run_beside(__file__)
