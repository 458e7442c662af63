"""Buckets of rates."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0013_pre"
down_revision = "0012_pre"


def upgrade() -> None:
    run_beside(__file__)
