"""Tasks: items with a due time, one after another in the lanes of queues."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0040_pre"
down_revision = "0038_pre"


def upgrade() -> None:
    run_beside(__file__)
