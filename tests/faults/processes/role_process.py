"""One role as a process: `python -m tests.faults.processes.role_process ROLE NAME RUNNERS [BUG]`.

It is what `streamsched worker|launcher|api` does, under a name that is given; runs are executed by processes that are
forked from a warm one (`RUNNERS` is its socket), which takes a fraction of what starting Python anew for each does; and
what has ended leaves for the history soon.
With a bug, it is spoilt as `bugged` says.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from unittest.mock import patch

from streamsched.config import Settings
from streamsched.domain.decisions.retention import Retention
from streamsched.domain.signals.layout import Layout
from streamsched.launcher import retention
from streamsched.ports.broker import Broker
from streamsched.process.supervision import run_until_signal
from streamsched.roles import launcher, services
from streamsched.roles.role import Role, serve
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.telemetry.logs import configure_logs
from tests.faults.processes.bugged import BuggedBroker, keep_tables
from tests.faults.processes.installation import relay_wish
from tests.faults.processes.warm_runners import WarmRunners
from tests.simulation.log import Bug


def main(role: str, name: str, runners: Path, bug: Bug | None) -> None:
    settings = Settings.from_env(os.environ)
    configure_logs(level=settings.log.level, style=settings.log.format)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    _replace_runners(runners)
    _hasten_history()
    _let_relay_be_killed(relay_wish(runners.parent))
    if bug is Bug.TABLE_KEPT:
        keep_tables()
    elif bug is not None:
        _spoil_the_log(bug)
    run_until_signal(serve(settings, Role(role), environ=os.environ, name=name))


def _replace_runners(socket: Path) -> None:
    def made(data_dir: Path, environ: Mapping[str, str], **options: object) -> WarmRunners:
        return WarmRunners(data_dir, socket)

    replace(launcher, "LocalRunners", made)


def _hasten_history() -> None:
    """What has ended leaves within the trial that saw it end, not after an hour."""
    replace(launcher, "Retention", partial(Retention, warm=timedelta(seconds=5)))
    replace(retention, "_EVERY", 5.0)


def _let_relay_be_killed(wish: Path) -> None:
    """The one moment at which it matters that the relay's position is in the log; a kill at random hardly ever meets
    the few milliseconds between its two writes.
    """
    forget = PostgresOutbox.forget

    def die_where_wished() -> None:
        if wish.exists():
            wish.unlink(missing_ok=True)
            os.kill(os.getpid(), signal.SIGKILL)

    async def forgetting(outbox: PostgresOutbox, ids: Sequence[int]) -> None:
        die_where_wished()
        await forget(outbox, ids)

    replace(PostgresOutbox, "forget", forgetting)


def _spoil_the_log(bug: Bug) -> None:
    opened = services.open_log

    async def open_spoilt(url: str, *, shards: int) -> tuple[Broker, Layout]:
        log, layout = await opened(url, shards=shards)
        return BuggedBroker(log, bug), layout

    replace(services, "open_log", open_spoilt)


def replace(owner: object, name: str, by: object) -> None:
    """Until the process ends.

    Raises:
        AttributeError: the owner has no such name, so that a name which moved is noticed.
    """
    patch.object(owner, name, by).start()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Bug(sys.argv[4]) if len(sys.argv) > 4 else None)
