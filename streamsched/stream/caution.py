"""What the lives of a shard learn from turns that failed: which records to take apart, and which one no turn can take.

A shard whose turn failed starts over from the log, and the same records come again. With caution they come in halves:
a turn that fails is halved until the record that fails it stands alone, and its neighbours have gone by. A record that
fails a turn of its own is condemned, and refused in the next. Where the log was away nobody is to blame, but a turn
may have been more than it takes at a time: that is halved too, and nothing is condemned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from streamsched.domain.errors import FencedError, UnavailableError
from streamsched.ports.broker import Chunk, TopicPartition

#: How often a record must fail a turn of its own: once or twice could be a whim of the machine.
_FAILS: Final = 3

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Condemned:
    """The record that no turn can take.

    Attributes:
        failure: what it raised.
        refusals: how often a turn that refused it failed as well.
    """

    at: TopicPartition
    offset: int
    failure: BaseException
    refusals: int = 0


class Caution:
    """One for all lives of a shard on one worker. Nothing of it is stored: another worker finds out by itself."""

    def __init__(self) -> None:
        #: The records before these positions are those of the turn that failed.
        self._suspects: dict[TopicPartition, int] = {}
        self._most = 0
        self._searching = False
        self._fails = 0
        self._condemned: Condemned | None = None

    @property
    def searching(self) -> bool:
        """Whether the next turn will be another than the one that failed, so that there is no point in a long pause."""
        return self._searching

    def share(self, chunks: Sequence[Chunk]) -> tuple[list[Chunk], list[Chunk]]:
        """What the next turn takes, and what is left for those after it. Order within a partition stays."""
        suspected = [chunk for chunk in chunks if self._suspected(chunk)]
        if not suspected:
            return list(chunks), []
        room = self._most
        taken: list[Chunk] = []
        left: list[Chunk] = []
        for chunk in chunks:
            stop = self._suspected(chunk) if room else 0
            now, later = _parted(chunk, min(stop, room))
            room -= 0 if now is None else len(now.records)
            taken += () if now is None else (now,)
            left += () if later is None else (later,)
        return taken, left

    def condemned(self, chunks: Sequence[Chunk]) -> Condemned | None:
        """Whether this turn consists of what no turn can take."""
        known = self._condemned
        if known is None or len(chunks) != 1 or len(chunks[0].records) != 1:
            return None
        (chunk,) = chunks
        return known if (_at(chunk), chunk.records[0].offset) == (known.at, known.offset) else None

    def went_well(self, chunks: Sequence[Chunk]) -> None:
        """A turn of these is visible."""
        if not self._suspects:
            return
        for chunk in chunks:
            if chunk.next_position >= self._suspects.get(_at(chunk), chunk.next_position + 1):
                del self._suspects[_at(chunk)]
        self._most *= 2
        self._fails, self._condemned = 0, None

    def failed(self, chunks: Sequence[Chunk], failure: BaseException) -> None:
        """A turn of these failed."""
        count = sum(len(chunk.records) for chunk in chunks)
        if count == 0 or isinstance(failure, FencedError) or not isinstance(failure, Exception):
            return
        known = self.condemned(chunks)
        self._suspects = {_at(chunk): chunk.next_position for chunk in chunks if chunk.records}
        self._most = max(1, count // 2)
        self._searching = not isinstance(failure, UnavailableError)
        if not self._searching:
            return
        if known is not None:
            self._condemned = Condemned(known.at, known.offset, known.failure, known.refusals + 1)
        elif count > 1:
            self._fails, self._condemned = 0, None
            log.warning("shard.turn_halved", records=count, reason=repr(failure))
        else:
            self._fails += 1
            (chunk,) = (each for each in chunks if each.records)
            if self._fails >= _FAILS:
                offset = chunk.records[0].offset
                log.error("shard.record_condemned", at="/".join(map(str, (*_at(chunk), offset))), reason=repr(failure))
                self._condemned = Condemned(_at(chunk), offset, failure)

    def _suspected(self, chunk: Chunk) -> int:
        """How many records of a chunk are suspects: the first so many."""
        before = self._suspects.get(_at(chunk))
        if before is None:
            return 0
        return sum(record.offset < before for record in chunk.records)


def _at(chunk: Chunk) -> TopicPartition:
    return TopicPartition(chunk.topic, chunk.partition)


def _parted(chunk: Chunk, first: int) -> tuple[Chunk | None, Chunk | None]:
    """Its first records, and the rest."""
    records = chunk.records
    if first == 0:
        return None, chunk
    if first == len(records):
        return chunk, None
    return chunk._replace(records=records[:first], next_position=records[first - 1].offset + 1), chunk._replace(
        records=records[first:]
    )
