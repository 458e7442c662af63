"""What runs have committed."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0117_pre"
down_revision = "0116_pre"


def upgrade() -> None:
    run_beside(__file__)
