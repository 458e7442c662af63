"""Room for processes."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0115_pre"
down_revision = "0107_pre"


def upgrade() -> None:
    run_beside(__file__)
