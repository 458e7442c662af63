"""Programs that were deleted while schedules of other namespaces waited for them."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0091_pre"
down_revision = "0090_pre"


def upgrade() -> None:
    run_beside(__file__)
