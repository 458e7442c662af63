"""Lanes: one run of each key, or of each schedule, at a time."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0032_pre"
down_revision = "0031_pre"


def upgrade() -> None:
    run_beside(__file__)
