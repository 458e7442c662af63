"""Bookmarks: how far a watcher or a consumer has read a dataset."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0066_pre"
down_revision = "0065_pre"


def upgrade() -> None:
    run_beside(__file__)
