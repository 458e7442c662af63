"""How a run is stopped."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0005_pre"
down_revision = "0004_pre"


def upgrade() -> None:
    run_beside(__file__)
