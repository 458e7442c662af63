"""The verdict `refused`, and one sentence more with a schedule's verdict."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0026_pre"
down_revision = "0025_pre"


def upgrade() -> None:
    run_beside(__file__)
