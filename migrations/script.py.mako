"""${message}"""

from __future__ import annotations

from streamsched.store.server.migrate import run_beside

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    run_beside(__file__)
