"""Definitions of schedules by generation."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0082_pre"
down_revision = "0077_pre"


def upgrade() -> None:
    run_beside(__file__)
