"""The schema of release 0.1.0."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0001_initial"
down_revision = None


def upgrade() -> None:
    run_beside(__file__)
