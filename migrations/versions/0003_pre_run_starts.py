"""The newest runs of a program, by index."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0003_pre"
down_revision = "0002_pre"


def upgrade() -> None:
    run_beside(__file__, in_transaction=False)
