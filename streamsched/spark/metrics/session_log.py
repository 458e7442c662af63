"""The metrics of one session of the machine's Spark Connect server, from the event log of that server.

The log has the jobs of all sessions. Spark tags each job, and each stage when it starts, with the operation that wanted
it; the server makes that tag from the session's id, and no tag that a program adds begins like it. Executors are not
counted: all sessions share them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.ports.clock import Clock
from streamsched.spark.metrics.event_log import EventLogSummary
from streamsched.spark.metrics.event_log_files import EventLogFiles

_TAGS: Final = "spark.job.tags"


class SessionSummary(EventLogSummary):
    """The metrics of one session.

    Args:
        tag: the beginning of the tags of its operations.
    """

    def __init__(self, tag: str) -> None:
        super().__init__()
        self._tag = tag
        self._sign = tag.encode()

    def add(self, line: bytes) -> None:
        """Counts one line of the log; a line that is cut or unknown is passed over."""
        if self._jobs or self._running or self._sign in line:
            super().add(line)

    def metrics(self, now_ms: int) -> RunMetrics:
        """`complete`: none of its jobs is under way."""
        return replace(super().metrics(now_ms), complete=not self._jobs and not self._running)

    def _concerns(self, name: bytes, event: dict[str, Any]) -> bool:
        match name:
            case b"SparkListenerJobStart" | b"SparkListenerStageSubmitted":
                tags = (event.get("Properties") or {}).get(_TAGS, "").split(",")
                return any(each.startswith(self._tag) for each in tags)
            case b"SparkListenerJobEnd":
                return event["Job ID"] in self._jobs
            case b"SparkListenerStageCompleted":
                info = event["Stage Info"]
                return (info["Stage ID"], info["Stage Attempt ID"]) in self._running
            case b"SparkListenerTaskEnd":
                return (event["Stage ID"], event["Stage Attempt ID"]) in self._running
            case _:
                return False


class SessionLog:
    """Metrics of one session from the event log of a Connect server, as `source.MetricsSource`. Make it before the
    session begins: what the log has then is passed over.

    Args:
        folder: of the server's event log, which stays.
        tag: see `SessionSummary`.
    """

    def __init__(self, folder: Path, tag: str, clock: Clock) -> None:
        """Raises:
        OSError: the log cannot be read.
        """
        self._files = EventLogFiles(folder, clock, keep=True, summary=lambda: SessionSummary(tag))
        self._files.pass_over()
        self._ended = False

    def read(self) -> RunMetrics | None:
        found = self._files.read()
        return None if found is None else replace(found, complete=found.complete and self._ended)

    def is_finished(self) -> bool:
        return self._files.is_finished()

    def note_end(self) -> None:
        self._ended = True

    def close(self) -> None:
        """Nothing: the log is the server's."""
