"""Runs say how their process was started; ends of nodes' jobs are noted without JSON."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0065_pre"
down_revision = "0062_pre"


def upgrade() -> None:
    run_beside(__file__)
