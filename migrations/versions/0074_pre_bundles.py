"""Bundles: folders of apps as archives."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0074_pre"
down_revision = "0082_pre"


def upgrade() -> None:
    run_beside(__file__, in_transaction=False)
