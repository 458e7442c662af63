"""Dapr: the instances of apps that get jobs."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0041_pre"
down_revision = "0040_pre"


def upgrade() -> None:
    run_beside(__file__)
