"""Fences that launchers write for runs that were given up."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0118_pre"
down_revision = "0117_pre"


def upgrade() -> None:
    run_beside(__file__)
