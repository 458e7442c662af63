"""The number of partitions of lanes can be changed in operation."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0061_pre"
down_revision = "0052_pre"


def upgrade() -> None:
    run_beside(__file__)
