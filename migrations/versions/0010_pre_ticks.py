"""Ticks that are fired later than their own time."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0010_pre"
down_revision = "0009_pre"


def upgrade() -> None:
    run_beside(__file__)
