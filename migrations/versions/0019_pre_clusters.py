"""Clusters and their load."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0019_pre"
down_revision = "0018_pre"


def upgrade() -> None:
    run_beside(__file__)
