"""Values that bookmarks get when a run succeeds."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0067_pre"
down_revision = "0066_pre"


def upgrade() -> None:
    run_beside(__file__)
