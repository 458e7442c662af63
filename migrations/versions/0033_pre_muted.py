"""Runs whose status no schedule is given."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0033_pre"
down_revision = "0032_pre"


def upgrade() -> None:
    run_beside(__file__)
