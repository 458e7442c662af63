"""What a job waits for in the queue of a group."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0015_pre"
down_revision = "0014_pre"


def upgrade() -> None:
    run_beside(__file__)
