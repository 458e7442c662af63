"""Waiting jobs that no end of a run can let go."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0023_pre"
down_revision = "0022_pre"


def upgrade() -> None:
    run_beside(__file__)
