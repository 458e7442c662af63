"""Indexes of the runs that wait, apart for those that launchers execute themselves."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0022_pre"
down_revision = "0021_pre"


def upgrade() -> None:
    run_beside(__file__)
