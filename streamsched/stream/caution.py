"""What the lives of a shard learn from turns that failed: which records to take apart, and which one no turn can take.

A shard whose turn failed starts over from the log, and the same records come again. With caution they come in halves:
a turn that fails is halved until the record that fails it stands alone, and its neighbours have gone by. A record that
fails a turn of its own is condemned, and refused in the next. Where the log was away, or refuses this user, no record
is to blame, but a turn may have been more than it takes at a time: that is halved too, and nothing is condemned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from streamsched.domain.errors import ConfigurationError, FencedError, NotFoundError, UnavailableError
from streamsched.ports.broker import Chunk, TopicPartition

#: How often a record must fail a turn of its own: once or twice could be a whim of the machine.
_FAILS: Final = 3
#: In how many ways a record can be refused: parked, in a letter, in a letter that only says where it stands.
_WAYS_TO_REFUSE: Final = 3
#: Whom these blame is the world or the installation, and no record.
_NOT_THE_RECORD: Final = (UnavailableError, ConfigurationError, NotFoundError)

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
    """One for all lives of a shard on one worker. Nothing of it is stored: another worker finds out by itself.

    Partitions are searched apart: which of them a read brings is chance, and of two that fail in turns each is found.
    """

    def __init__(self) -> None:
        #: The records before these positions are those of turns that failed.
        self._suspects: dict[TopicPartition, int] = {}
        self._most = 0
        self._offered: frozenset[TopicPartition] = frozenset()
        self._searching = False
        #: The first record of a partition, and how often it failed a turn of its own.
        self._fails: dict[TopicPartition, tuple[int, int]] = {}
        self._condemned: dict[TopicPartition, Condemned] = {}

    @property
    def searching(self) -> bool:
        """Whether a turn of this life failed and the next will be another: then a long pause has no point."""
        return self._searching

    def begin(self) -> None:
        """A life begins. One that ends outside a turn is no part of a search."""
        self._searching = False

    def share(self, chunks: Sequence[Chunk]) -> tuple[list[Chunk], list[Chunk]]:
        """What the next turn takes, and what is left for those after it. Order within a partition stays."""
        self._offered = frozenset(map(_at, chunks))
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
        if len(chunks) != 1 or len(chunks[0].records) != 1:
            return None
        (chunk,) = chunks
        known = self._condemned.get(_at(chunk))
        return known if known is not None and known.offset == chunk.records[0].offset else None

    def went_well(self, chunks: Sequence[Chunk]) -> None:
        """A turn of these is visible. One without suspects says nothing of them."""
        cleared = [chunk for chunk in chunks if _at(chunk) in self._suspects]
        if not cleared:
            return
        for chunk in cleared:
            at = _at(chunk)
            self._fails.pop(at, None)
            self._condemned.pop(at, None)
            if chunk.next_position >= self._suspects[at]:
                del self._suspects[at]
        self._most *= 2

    def failed(self, chunks: Sequence[Chunk], failure: BaseException) -> None:
        """A turn of these failed."""
        taken = [chunk for chunk in chunks if chunk.records]
        count = sum(len(chunk.records) for chunk in taken)
        if count == 0 or isinstance(failure, FencedError) or not isinstance(failure, Exception):
            return
        known = self.condemned(chunks)
        # This turn had part of what was read, and the blame is in that part. What was not read is still suspect.
        waiting = {at: before for at, before in self._suspects.items() if at not in self._offered}
        self._suspects = waiting | {_at(chunk): chunk.next_position for chunk in taken}
        self._most = max(1, count // 2)
        if isinstance(failure, _NOT_THE_RECORD):
            return
        if known is not None:
            self._condemned[known.at] = refused = replace(known, refusals=known.refusals + 1)
            self._searching = refused.refusals < _WAYS_TO_REFUSE
        elif count > 1:
            self._searching = True
            log.warning("shard.turn_halved", records=count, reason=repr(failure))
        else:
            self._searching = True
            self._alone(_at(taken[0]), taken[0].records[0].offset, failure)

    def _alone(self, at: TopicPartition, offset: int, failure: Exception) -> None:
        """A record failed a turn of its own."""
        first, before = self._fails.get(at, (offset, 0))
        fails = before + 1 if first == offset else 1
        self._fails[at] = offset, fails
        if fails >= _FAILS:
            log.error("shard.record_condemned", at="/".join(map(str, (*at, offset))), reason=repr(failure))
            self._condemned[at] = Condemned(at, offset, failure)

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
