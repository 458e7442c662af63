"""Unsuccessful runs by time, of all programs and of one."""

from __future__ import annotations

from streamsched.store.server.migrate import index_parts, run_beside

revision = "0085_pre"
down_revision = "0073_pre"


def upgrade() -> None:
    run_beside(__file__, in_transaction=False)
    for index in ("runs_history_unsuccessful", "runs_history_unsuccessful_of_program"):
        index_parts(index)
