"""What the last entry of the audit is, and what was refused of spools."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0094_pre"
down_revision = "0092_pre"


def upgrade() -> None:
    run_beside(__file__)
