"""API tokens, the installation's key, and the audit of changes."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0070_pre"
down_revision = "0067_pre"


def upgrade() -> None:
    run_beside(__file__)
