"""Wake-ups that folds asked for."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0007_pre"
down_revision = "0006_pre"


def upgrade() -> None:
    run_beside(__file__)
