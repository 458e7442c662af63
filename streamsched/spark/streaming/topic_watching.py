"""`streamsched watch topic`: checks a topic until the process is stopped, and logs what it has seen."""

from __future__ import annotations

import structlog

from streamsched.spark.streaming.topic_watcher import TopicWatcher, TopicWatchResult
from streamsched.spark.tables.watching import check_until_stopped

log = structlog.get_logger()


class TopicReporter:
    """Logs results of checks; a note that is the same as at the check before is logged once."""

    def __init__(self, watcher: TopicWatcher) -> None:
        self._watcher = watcher
        self._noted: tuple[str, ...] = ()

    def check(self) -> None:
        """One check. Raises as `TopicWatcher.run_once`."""
        self._report(self._watcher.run_once())

    def _report(self, seen: TopicWatchResult) -> None:
        named = {"stream": str(self._watcher.stream), "topic": self._watcher.topic}
        if seen.began:
            log.info("watch.began", **named, bookmark=self._watcher.bookmark)
        for note in seen.notes:
            if note not in self._noted:
                log.warning("watch.noted", **named, note=note)
        self._noted = seen.notes
        for each in seen.sent:
            log.info(
                "watch.announced", **named, event=each.event_id, amount=each.amount, measure=self._watcher.measure.value
            )
        for why in seen.refused:
            log.error("watch.refused", **named, event=why)


def watch_topic_until_stopped(watcher: TopicWatcher, *, every: float) -> None:
    """Checks the topic every so many seconds until SIGINT or SIGTERM. A broker or a server that does not answer is
    logged and asked again.

    Raises:
        NotFoundError, ConfigurationError, ConflictError: see `TopicWatcher.run_once`.
    """
    check_until_stopped(TopicReporter(watcher).check, every=every, stream=str(watcher.stream), topic=watcher.topic)
