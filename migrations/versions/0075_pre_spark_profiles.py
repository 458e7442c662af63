"""Profiles of Spark programs."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0075_pre"
down_revision = "0074_pre"


def upgrade() -> None:
    run_beside(__file__)
