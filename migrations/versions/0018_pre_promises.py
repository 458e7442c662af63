"""Deadlines of jobs, and schedules that pause themselves."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0018_pre"
down_revision = "0017_pre"


def upgrade() -> None:
    run_beside(__file__)
