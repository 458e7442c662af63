"""Graphs: tasks over job ids, their nodes, and the ends of their jobs."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0050_pre"
down_revision = "0042_pre"


def upgrade() -> None:
    run_beside(__file__)
