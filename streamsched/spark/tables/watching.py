"""The loop of `streamsched watch`: checks a table or a topic until the process is stopped."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

from streamsched.domain.errors import StreamschedError, UnavailableError
from streamsched.spark.tables.watcher import Watcher, WatchResult

log = structlog.get_logger()

#: Seconds between two questions for a cue.
_CUE_EVERY: Final = 1.0
#: Partitions that a log line names.
_SHOWN: Final = 5


def watch_until_stopped(watcher: Watcher, *, every: float, cues: Callable[[], int]) -> None:
    """Checks the table every so many seconds until SIGINT or SIGTERM, and within about a second of a cue. A storage or
    a server that does not answer is logged and asked again.

    Args:
        cues: the number of cues given so far; asked each second. An error of it is no cue.

    Raises:
        NotFoundError, ConfigurationError, ConflictError, InvalidError: see `TableSource`.
    """
    check_until_stopped(
        lambda: _report(watcher, watcher.run_once()), every=every, cues=cues, dataset=str(watcher.dataset)
    )


def check_until_stopped(
    check: Callable[[], object], *, every: float, cues: Callable[[], int] = lambda: 0, **named: str
) -> None:
    """Calls `check` every so many seconds, and after a cue, until SIGINT or SIGTERM. `UnavailableError` is logged with
    the names, and the check is repeated; other errors are raised.
    """
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    while not stopped.is_set():
        before = _count_cues(cues)
        try:
            check()
        except UnavailableError as exc:
            log.warning("watch.interrupted", **named, reason=str(exc), again_in_s=every)
        wait_for_cue(stopped, lambda: _count_cues(cues), before, every=every)


def wait_for_cue(stopped: threading.Event, cues: Callable[[], int | None], before: int | None, *, every: float) -> bool:
    """Waits so many seconds, until `stopped`, or until the number of cues is known and not `before` any more; returns
    whether there was a cue.
    """
    end = time.monotonic() + every
    while (left := end - time.monotonic()) > 0 and not stopped.wait(min(left, _CUE_EVERY)):
        if every > _CUE_EVERY and before is not None and cues() not in (None, before):
            return True
    return False


def _count_cues(cues: Callable[[], int]) -> int | None:
    try:
        return cues()
    except StreamschedError:
        return None


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
