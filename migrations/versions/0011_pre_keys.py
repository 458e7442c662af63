"""The open keys of schedules that correlate."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0011_pre"
down_revision = "0010_pre"


def upgrade() -> None:
    run_beside(__file__)
