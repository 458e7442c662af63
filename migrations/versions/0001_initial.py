"""The first schema."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_beside(__file__)
