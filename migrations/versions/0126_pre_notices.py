"""Who is notified of failures, and the lines of the audit by number."""

from __future__ import annotations

from streamsched.store.server.migrate import index_parts, run_beside

revision = "0126_pre"
down_revision = "0125_pre"


def upgrade() -> None:
    run_beside(__file__, in_transaction=False)
    index_parts("work_decisions_failures")
    index_parts("audit_decisions_by_id")
