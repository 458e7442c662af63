"""What has ended lives in days of its own."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0016_pre"
down_revision = "0015_pre"


def upgrade() -> None:
    run_beside(__file__)
