"""Submissions: jobs that a person asked for."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0031_pre"
down_revision = "0028_pre"


def upgrade() -> None:
    run_beside(__file__)
