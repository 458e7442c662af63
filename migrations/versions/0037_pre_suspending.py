"""The ways of suspending a schedule."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0037_pre"
down_revision = "0036_pre"


def upgrade() -> None:
    run_beside(__file__)
