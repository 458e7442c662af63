"""Drivers of runs in clusters."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0073_pre"
down_revision = "0078_pre"


def upgrade() -> None:
    run_beside(__file__)
