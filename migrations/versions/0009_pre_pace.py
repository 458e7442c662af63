"""Paces that all launchers share."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0009_pre"
down_revision = "0008_pre"


def upgrade() -> None:
    run_beside(__file__)
