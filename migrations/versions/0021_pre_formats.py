"""Versions of the states' encoding: which one a worker reads, and which one may stand behind a lease."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0021_pre"
down_revision = "0020_pre"


def upgrade() -> None:
    run_beside(__file__)
