"""Where workers reach the owners of tasks, and the indexes of inline runs with enqueue programs."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0042_pre"
down_revision = "0041_pre"


def upgrade() -> None:
    run_beside(__file__, in_transaction=False)
