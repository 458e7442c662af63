"""What workers tell of their shards."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0020_pre"
down_revision = "0019_pre"


def upgrade() -> None:
    run_beside(__file__)
