"""The processes of an installation, and whose rules of zones its stored ticks follow."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0124_pre"
down_revision = "0123_pre"


def upgrade() -> None:
    run_beside(__file__)
