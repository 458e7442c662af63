"""Webhooks, and the lines of the history by number."""

from __future__ import annotations

from streamsched.store.server.migrate import index_parts, run_beside

revision = "0087_pre"
down_revision = "0086_pre"


def upgrade() -> None:
    run_beside(__file__, in_transaction=False)
    index_parts("work_decisions_by_id")
