"""The epochs of jobs that commit to file sets."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0100_pre"
down_revision = "0094_pre"


def upgrade() -> None:
    run_beside(__file__)
