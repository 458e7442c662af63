"""Changes that keep, pauses, and who waits for a program."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0008_pre"
down_revision = "0007_pre"


def upgrade() -> None:
    run_beside(__file__)
