"""Nodes some of whose children could not be computed."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0132_pre"
down_revision = "0130_pre"


def upgrade() -> None:
    run_beside(__file__)
