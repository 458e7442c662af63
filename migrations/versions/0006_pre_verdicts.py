"""What became of each event."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0006_pre"
down_revision = "0005_pre"


def upgrade() -> None:
    run_beside(__file__)
