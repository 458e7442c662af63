"""Schedules in error, and the verdict on their parked events."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0014_pre"
down_revision = "0013_pre"


def upgrade() -> None:
    run_beside(__file__)
