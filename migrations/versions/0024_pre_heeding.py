"""Who is looked at when a run ends, by index."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0024_pre"
down_revision = "0023_pre"


def upgrade() -> None:
    run_beside(__file__, in_transaction=False)
