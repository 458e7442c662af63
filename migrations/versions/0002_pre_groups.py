"""Named groups of slots."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0002_pre"
down_revision = "0001"


def upgrade() -> None:
    run_beside(__file__)
