"""Deadlines of runs."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0012_pre"
down_revision = "0011_pre"


def upgrade() -> None:
    run_beside(__file__)
