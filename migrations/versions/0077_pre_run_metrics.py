"""Runs have metrics."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0077_pre"
down_revision = "0076_pre"


def upgrade() -> None:
    run_beside(__file__)
