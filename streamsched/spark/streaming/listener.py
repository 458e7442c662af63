"""Stream sizes from the progress of streaming queries, without a change to how a query writes.

    spark.streams.addListener(StreamSizeListener({"clicks": "clicks"}))      # name of the query → stream

Spark reports rows of each batch and no bytes. So without more, the amount of an event is a number of *rows*, and
`stream_size("clicks", 100_000)` holds after so many rows. Bytes are those that the query observes itself:

    rows.observe("sizes", sum(octet_length("value")).alias("bytes")).writeStream.queryName("clicks")
    StreamSizeListener({"clicks": "clicks"}, observed=("sizes", "bytes"))

Both are of what the batch's jobs have read: a function of `foreachBatch` that reads a batch twice doubles them, and one
that finds the batch committed, as that of `batches.write_batches` does, reads nothing. Use one or the other.

The id of an event is made from the id of the query, which its checkpoint keeps, and the number of the batch: Spark
repeats a batch with the same rows, in another run of the query, so the id of that run is not part of it. A batch that
is reported again counts once. Spark reports a batch after it has ended and does not repeat a report: when the driver
is killed in between, the growth of that batch is not announced. `batches.write_batches` has no such gap.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from streamsched.domain.errors import ConfigurationError, RefusedError, StreamschedError, UnavailableError
from streamsched.domain.names import StreamRef
from streamsched.emit.client import Emitter
from streamsched.emit.destination import NO_DESTINATION, find_destination, namespace
from streamsched.emit.draft import EventDraft, stream_size
from streamsched.spark.pfs import Announcer

log = logging.getLogger("streamsched.spark")

#: Events that are kept while the server is away and there is no spool; beyond it the oldest are dropped.
_MOST_UNSENT: Final = 10_000


class StreamSizeListener(StreamingQueryListener):
    """Emits by how much streams have grown, one event for each batch with rows. Other queries are passed over."""

    def __init__(
        self,
        streams: Mapping[str, str | StreamRef],
        *,
        observed: tuple[str, str] | None = None,
        emitter: Announcer | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Opens no connection.

        Args:
            streams: name of a query → its stream.
            observed: name and column of the observed metric that is the amount; None: rows that were read.
            emitter: by default one to the installation of this process, with a spool where there is one.

        Raises:
            InvalidError: an invalid name of a stream.
            ConfigurationError: there is no emitter, and no installation is known.
        """
        super().__init__()
        env = os.environ if environ is None else environ
        self._streams = {
            query: StreamRef.parse(stream, namespace(env)) if isinstance(stream, str) else stream
            for query, stream in streams.items()
        }
        self._observed = observed
        self._emitter = emitter or _emitter(env)
        self._lock = threading.Lock()
        self._unsent: list[EventDraft] = []

    # ruff: noqa: N802 - Spark's names
    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Does nothing."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Does nothing: there was no batch."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Emits the growth of a batch, and what could not be sent before."""
        progress = event.progress
        stream = self._streams.get(progress.name or "")
        if stream is None:
            return
        amount = progress.numInputRows if self._observed is None else self._metric(progress, *self._observed)
        if amount <= 0:
            return
        name = f"stream-{progress.id}-{progress.batchId}-{'rows' if self._observed is None else self._observed[1]}"
        self._send(stream_size(stream, amount, absolute=False, event_id=name, source=f"/streams/{stream}"))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Tries once more to emit what could not be sent."""
        self._send()

    def _metric(self, progress: Any, metric: str, column: str) -> int:
        """The observed number; 0, with a log line, when the query observes none of that name."""
        if progress.numInputRows <= 0:
            return 0
        row = progress.observedMetrics.get(metric)
        if row is None or column not in row.asDict():
            log.error("stream.unobserved query=%s metric=%s column=%s", progress.name, metric, column)
            return 0
        return int(row[column] or 0)

    def _send(self, *drafts: EventDraft) -> None:
        """Never raises: Spark would drop the error. What the server does not accept is logged."""
        with self._lock:
            waiting = [*self._unsent, *drafts][-_MOST_UNSENT:]
            if dropped := len(self._unsent) + len(drafts) - len(waiting):
                log.error("stream.dropped count=%d why=the server is away for too long", dropped)
            self._unsent = waiting
            if not waiting:
                return
            try:
                self._emitter.emit(*waiting)
            except RefusedError as exc:
                log.error("stream.refused why=%s", exc)
            except UnavailableError as exc:
                log.warning("stream.unannounced count=%d why=%s", len(waiting), exc)
                return
            except StreamschedError as exc:
                log.error("stream.unannounced count=%d why=%s", len(waiting), exc)
                return
            self._unsent = []


def _emitter(environ: Mapping[str, str]) -> Emitter:
    found = find_destination(environ)
    if found is None:
        raise ConfigurationError(f"growth of streams cannot be announced: {NO_DESTINATION}")
    return Emitter(found.url, source="/streams", spool=found.spool, token=found.token)
