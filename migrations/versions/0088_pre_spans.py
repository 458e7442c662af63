"""Which jobs and runs spans are made of."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0088_pre"
down_revision = "0087_pre"


def upgrade() -> None:
    run_beside(__file__, in_transaction=False)
