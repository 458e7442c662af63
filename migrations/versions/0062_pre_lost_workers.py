"""Deliveries whose worker was lost are counted."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0062_pre"
down_revision = "0061_pre"


def upgrade() -> None:
    run_beside(__file__)
