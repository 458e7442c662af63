"""What processes judged about the server's clock."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0123_pre"
down_revision = "0122_pre"


def upgrade() -> None:
    run_beside(__file__)
