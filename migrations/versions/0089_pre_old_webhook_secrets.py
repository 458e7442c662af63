"""The secret of a webhook before its last one, which signs beside it for a while."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0089_pre"
down_revision = "0088_pre"


def upgrade() -> None:
    run_beside(__file__)
