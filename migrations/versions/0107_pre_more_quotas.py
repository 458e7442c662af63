"""Quotas of names of groups and pools, of webhooks and of logs."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0107_pre"
down_revision = "0106_pre"


def upgrade() -> None:
    run_beside(__file__)
