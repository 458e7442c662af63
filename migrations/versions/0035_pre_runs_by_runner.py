"""The inline runs of one launcher, by index."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0035_pre"
down_revision = "0034_pre"


def upgrade() -> None:
    run_beside(__file__, in_transaction=False)
