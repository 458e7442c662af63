"""Verdict `replaced`."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0030_pre"
down_revision = "0027_pre"


def upgrade() -> None:
    run_beside(__file__)
