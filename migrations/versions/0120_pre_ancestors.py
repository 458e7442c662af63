"""The ancestors of jobs."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0120_pre"
down_revision = "0119_pre"


def upgrade() -> None:
    run_beside(__file__)
