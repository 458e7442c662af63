"""Grants between namespaces, and the owners of groups and pools."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0090_pre"
down_revision = "0089_pre"


def upgrade() -> None:
    run_beside(__file__)
