"""Leases of launcher processes."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0034_pre"
down_revision = "0033_pre"


def upgrade() -> None:
    run_beside(__file__)
