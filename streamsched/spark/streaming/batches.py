"""Batches of a streaming query as commits of a file set.

    clicks = PartitionedFileSet("clicks", "/data/clicks")
    query = rows.writeStream.foreachBatch(write_batches(clicks, partition_by=["day"], stream="clicks")).start()

A batch is one commit, whose id is made from the id of the query, which its checkpoint keeps, and the number of the
batch. When Spark repeats a batch after a failure, the commit is there already: nothing is written, and what was not
announced is announced. A checkpoint that was deleted is another query, whose batches are other commits.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from streamsched.domain.errors import ConfigurationError, ConflictError, InvalidError
from streamsched.domain.names import StreamRef
from streamsched.emit.client import Emitter
from streamsched.emit.destination import NO_DESTINATION, find_destination, namespace
from streamsched.emit.draft import check_keys, stream_size
from streamsched.spark.manifest import Mode
from streamsched.spark.pfs import Announcer, Commit, PartitionedFileSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("streamsched.spark")

#: Spark's local property of the thread that runs a batch.
_QUERY: Final = "sql.streaming.queryId"


def write_batches(
    files: PartitionedFileSet,
    *,
    partition_by: Sequence[str],
    mode: Mode | str = Mode.APPEND,
    stream: str | StreamRef | None = None,
    query: str | None = None,
    emitter: Announcer | None = None,
    environ: Mapping[str, str] | None = None,
) -> Callable[[DataFrame, int], None]:
    """A function for `DataStreamWriter.foreachBatch` that commits each batch to `files`, once. See
    `PartitionedFileSet.write`.

    Args:
        stream: after the commit the stream is announced to have grown by the bytes of the commit's Parquet files, by an
            event whose id is that of the commit with `-size`. None announces no growth.
        query: a name of the query that no other query of the file set has, in place of its id: needed where the id is
            not known, over Spark Connect. A new checkpoint needs a new name, since its batches are counted anew.
        emitter: of the stream's events; by default as for file sets, with a spool where there is one.

    The function fails, and with it the query, when a commit fails, when the events of a stream are refused, and when
    they can neither be sent nor spooled: the batch is repeated when the query is started again.

    Raises:
        InvalidError: no list of partition columns, an unknown mode, or an invalid name of a stream.
    """
    columns = tuple(check_keys(partition_by, "$.partition_by"))
    if not columns:
        raise InvalidError("$.partition_by", "must name at least one column")
    if mode not in tuple(Mode):
        raise InvalidError("$.mode", f"must be one of {', '.join(Mode)} but is '{mode}'")
    env = os.environ if environ is None else environ
    ref = StreamRef.parse(stream, namespace(env)) if isinstance(stream, str) else stream

    def write(rows: DataFrame, batch: int) -> None:
        name = f"stream-{query or _query_id(rows)}-{batch}"
        commit = files.write(rows, partition_by=columns, mode=mode, commit_id=name)
        log.info("batch.committed dataset=%s commit=%s partitions=%d", files.dataset, name, len(commit.partitions))
        size = _bytes(commit)
        if ref is not None and size:
            _announce(ref, size, f"{name}-size", emitter, env)

    return write


def _bytes(commit: Commit) -> int:
    return sum(each.bytes or 0 for each in commit.partitions)


def _announce(
    stream: StreamRef, size: int, event_id: str, emitter: Announcer | None, environ: Mapping[str, str]
) -> None:
    draft = stream_size(stream, size, absolute=False, event_id=event_id)
    if emitter is not None:
        emitter.emit(draft)
        return
    found = find_destination(environ)
    if found is None:
        raise ConfigurationError(f"growth of stream {stream} cannot be announced: {NO_DESTINATION}")
    with Emitter(found.url, source=f"/streams/{stream}", spool=found.spool, token=found.token) as opened:
        opened.emit(draft)


def _query_id(rows: DataFrame) -> str:
    """The id of the query whose batch this is.

    Raises:
        ConflictError: it is not known here.
    """
    context = getattr(rows.sparkSession, "_sc", None)  # a session of Spark Connect has none, and raises when asked
    found = None if context is None else context.getLocalProperty(_QUERY)
    if not found:
        raise ConflictError(
            "the id of the streaming query is not known here (outside foreachBatch, or over Spark Connect): "
            'name the query, write_batches(…, query="clicks-1")'
        )
    return str(found)
