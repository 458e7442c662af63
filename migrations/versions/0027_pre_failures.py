"""How often a waiting job could not be decided."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0027_pre"
down_revision = "0026_pre"


def upgrade() -> None:
    run_beside(__file__)
