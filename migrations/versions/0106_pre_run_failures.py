"""The class of a run's failure."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0106_pre"
down_revision = "0100_pre"


def upgrade() -> None:
    run_beside(__file__)
