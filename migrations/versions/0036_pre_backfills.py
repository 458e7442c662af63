"""Backfills, their items, and the backfill of a job."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0036_pre"
down_revision = "0035_pre"


def upgrade() -> None:
    run_beside(__file__)
