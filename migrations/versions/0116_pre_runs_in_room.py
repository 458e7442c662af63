"""Runs that need a process, by namespace and pool."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0116_pre"
down_revision = "0115_pre"


def upgrade() -> None:
    run_beside(__file__, in_transaction=False)
