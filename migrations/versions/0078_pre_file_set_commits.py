"""Commits of file sets on storages that cannot create a file only if it is absent."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0078_pre"
down_revision = "0075_pre"


def upgrade() -> None:
    run_beside(__file__)
