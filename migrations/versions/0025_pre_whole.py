"""Open keys of any length."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0025_pre"
down_revision = "0024_pre"


def upgrade() -> None:
    run_beside(__file__)
