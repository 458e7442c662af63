"""Verdict `correction`."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0122_pre"
down_revision = "0121_pre"


def upgrade() -> None:
    run_beside(__file__)
