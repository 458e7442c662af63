"""What people told a job."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0004_pre"
down_revision = "0003_pre"


def upgrade() -> None:
    run_beside(__file__)
