"""Whether who set a Spark profile may have code executed on launchers."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0092_pre"
down_revision = "0091_pre"


def upgrade() -> None:
    run_beside(__file__)
