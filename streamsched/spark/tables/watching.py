"""The loop of `streamsched watch`: checks a table until the process is stopped."""

from __future__ import annotations

import signal
import threading
from typing import Final

import structlog

from streamsched.domain.errors import UnavailableError
from streamsched.spark.tables.watcher import Watcher, WatchResult

log = structlog.get_logger()

#: Partitions that a log line names.
_SHOWN: Final = 5


def watch_until_stopped(watcher: Watcher, *, every: float) -> None:
    """Checks the table every so many seconds until SIGINT or SIGTERM. A storage or a server that does not answer is
    logged and asked again.

    Raises:
        NotFoundError, ConfigurationError, ConflictError, InvalidError: see `TableSource`.
    """
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    while not stopped.is_set():
        try:
            _report(watcher, watcher.run_once())
        except UnavailableError as exc:
            log.warning("watch.interrupted", dataset=str(watcher.dataset), reason=str(exc), again_in_s=every)
        stopped.wait(every)


def _report(watcher: Watcher, seen: WatchResult) -> None:
    dataset = str(watcher.dataset)
    if seen.began:
        log.info("watch.began", dataset=dataset, bookmark=watcher.bookmark)
    for note in seen.notes:
        log.warning("watch.noted", dataset=dataset, note=note)
    for commit in seen.commits:
        log.info(
            "watch.announced",
            dataset=dataset,
            event=commit.id,
            count=len(commit.partitions),
            partitions=[each.key for each in commit.partitions[:_SHOWN]],
            rows=commit.rows,
            bytes=commit.bytes,
        )
    for why in seen.refused:
        log.error("watch.refused", dataset=dataset, event=why)
    if seen.passed:
        log.info("watch.passed", dataset=dataset, commits=seen.passed)
