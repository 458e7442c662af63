"""The file an app was deployed from."""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = "0028_pre"
down_revision = "0030_pre"


def upgrade() -> None:
    run_beside(__file__)
