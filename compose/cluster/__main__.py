"""`python -m compose.cluster`: a whole installation on this machine, as plain processes on loopback.

Kafka, PostgreSQL, a Spark standalone cluster, two workers, two launchers, an API, and Prometheus where it is installed.
Returns when it is stopped with Ctrl-C or SIGTERM; what ends by itself is started again meanwhile. With `--check` it
drives events and jobs through the cluster, kills a worker and a launcher, and stops: exit code 0 if all was well.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from compose.cluster.drive import drive
from compose.cluster.errors import DriveFailedError, NotStartedError
from compose.cluster.folder import ClusterFolder
from compose.cluster.local_cluster import LocalCluster
from compose.cluster.ports import free_ports, usual_ports
from compose.cluster.report import report
from compose.cluster.walls import try_walls
from streamsched.domain.programs.program_users import ProgramUsers


def main() -> int:
    """Exit code 1: it could not be started, or the check failed."""
    parser = argparse.ArgumentParser(
        prog="python -m compose.cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="drive events and jobs through it, and stop")
    parser.add_argument("--folder", type=Path, help="folder of data and logs; default .cluster, with --check a new one")
    parser.add_argument("--free-ports", action="store_true", help="any free ports; always with --check")
    parser.add_argument("--without-spark", action="store_true", help="no Spark cluster; Spark programs run locally")
    parser.add_argument("--without-prometheus", action="store_true")
    parser.add_argument("--run-as", default="", help="users of programs, such as sales=alice,finance=bob; as root")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        with _folder(asked.folder, check=asked.check) as path:
            folder = ClusterFolder(path)
            with folder.locked():
                cluster = LocalCluster(
                    folder,
                    free_ports() if asked.free_ports or asked.check else usual_ports(),
                    with_spark=not asked.without_spark,
                    with_prometheus=not asked.without_prometheus,
                    say=_say,
                    run_as=asked.run_as,
                )
                asyncio.run(_run(cluster, check=asked.check))
    except (NotStartedError, DriveFailedError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


@contextmanager
def _folder(asked: Path | None, *, check: bool) -> Iterator[Path]:
    if check and asked is None:
        with tempfile.TemporaryDirectory(prefix="ss-cluster-", ignore_cleanup_errors=True) as scratch:
            yield Path(scratch)
    else:
        yield (asked or Path(".cluster")).absolute()


async def _run(cluster: LocalCluster, *, check: bool) -> None:
    """Returns after SIGINT or SIGTERM, or after the check; everything has stopped then."""
    running = asyncio.create_task(_started(cluster, check=check))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        _say("stopping …")
    finally:
        cluster.stop()
    _say("stopped")


async def _started(cluster: LocalCluster, *, check: bool) -> None:
    began = time.monotonic()
    _say("starting …")
    await cluster.start()
    for line in report(cluster):
        _say(line)
    _say(f"all healthy after {time.monotonic() - began:.0f} s")
    if check:
        await drive(cluster, _say)
        users = ProgramUsers.parse(cluster.run_as).users
        if len(users) == 2:
            await try_walls(cluster, users, _say)
    else:
        await cluster.keep()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
