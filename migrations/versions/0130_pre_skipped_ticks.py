"""Skipped ticks and ticks without a handler are counted."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0130_pre"
down_revision = "0126_pre"


def upgrade() -> None:
    run_beside(__file__)
