"""The index of the failures of one app."""

from __future__ import annotations

from streamsched.store.server.migrate import index_parts, run_beside

revision = "0134_pre"
down_revision = "0133_pre"


def upgrade() -> None:
    run_beside(__file__, in_transaction=False)
    index_parts("work_decisions_failures_of_subject")
