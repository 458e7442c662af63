"""Nodes whose children could not be computed are tried again later."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0052_pre"
down_revision = "0051_pre"


def upgrade() -> None:
    run_beside(__file__)
