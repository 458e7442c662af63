"""Indexes for the descendants of a job, and for joins per run of an ancestor."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0121_pre"
down_revision = "0120_pre"


def upgrade() -> None:
    run_beside(__file__, in_transaction=False)
