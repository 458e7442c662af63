"""Preferences: arguments of every run of a namespace's programs."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0038_pre"
down_revision = "0037_pre"


def upgrade() -> None:
    run_beside(__file__)
