"""Expectations, and what shows that they are met."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0125_pre"
down_revision = "0124_pre"


def upgrade() -> None:
    run_beside(__file__)
