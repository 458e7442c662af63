"""Finds the record that makes turns fail, by halving failed turns (ADR 6).

A shard whose turn failed restarts from the log and reads the same records again. A turn that failed is halved until the
record that fails it is alone in its turn; the others are processed in turns of their own. A record that fails its own
turn `_FAILS` times is poison, and is refused in the next turn. When the log is unavailable, or refuses this user, no
record is the cause; the turn may have been too large for the log, so it is halved too, but no record is poison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from streamsched.domain.errors import ConfigurationError, FencedError, NotFoundError, UnavailableError
from streamsched.ports.broker import Chunk, TopicPartition

#: How often a record must fail a turn of its own: once or twice may be a transient failure.
_FAILS: Final = 3
#: The ways to refuse a record: parked, as a dead letter, and as a dead letter without its bytes.
_WAYS_TO_REFUSE: Final = 3
#: Failures caused by the log or the installation, not by a record.
_NOT_THE_RECORD: Final = (UnavailableError, ConfigurationError, NotFoundError)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class PoisonRecord:
    """A record that fails every turn.

    Attributes:
        failure: the exception.
        refusals: how often a turn that refused it failed as well.
    """

    at: TopicPartition
    offset: int
    failure: BaseException
    refusals: int = 0


class PoisonSearch:
    """One per shard and worker; it outlives restarts of the shard. It is not stored: another worker searches anew.

    Partitions are searched independently: which of them a read returns is arbitrary, and each may have such a record.
    """

    def __init__(self) -> None:
        #: By partition, the position before which records are suspects, since they were in a failed turn.
        self._suspects: dict[TopicPartition, int] = {}
        self._max_records = 0
        self._offered: frozenset[TopicPartition] = frozenset()
        self._searching = False
        #: By partition, the offset of a record and how often it failed a turn of its own.
        self._fails: dict[TopicPartition, tuple[int, int]] = {}
        self._poison: dict[TopicPartition, PoisonRecord] = {}

    @property
    def is_searching(self) -> bool:
        """Whether a turn failed since `begin` and the next one will differ, so that no long pause is needed."""
        return self._searching

    @property
    def has_suspects(self) -> bool:
        """Whether a turn has failed among whose records the cause has not been found."""
        return bool(self._suspects)

    def begin(self) -> None:
        """Call it before each start of the shard. A failure outside a turn is not part of a search."""
        self._searching = False

    def split(self, chunks: Sequence[Chunk]) -> tuple[list[Chunk], list[Chunk]]:
        """The records of the next turn, and the rest. Order within a partition is kept."""
        self._offered = frozenset(chunk.at for chunk in chunks)
        suspected = [chunk for chunk in chunks if self._count_suspects(chunk)]
        if not suspected:
            return list(chunks), []
        room = self._max_records
        taken: list[Chunk] = []
        left: list[Chunk] = []
        for chunk in chunks:
            stop = self._count_suspects(chunk) if room else 0
            now, later = chunk.records[: min(stop, room)], chunk.records[min(stop, room) :]
            room -= len(now)
            taken += (chunk.part(now),) if now else ()
            left += (chunk.part(later),) if later or not now else ()
        return taken, left

    def poison(self, chunks: Sequence[Chunk]) -> PoisonRecord | None:
        """The only record of the turn when it is known to be poison; else None."""
        if len(chunks) != 1 or len(chunks[0].records) != 1:
            return None
        (chunk,) = chunks
        known = self._poison.get(chunk.at)
        return known if known is not None and known.offset == chunk.records[0].offset else None

    def record_success(self, chunks: Sequence[Chunk]) -> None:
        """Call it when a turn of these chunks was committed."""
        cleared = [chunk for chunk in chunks if chunk.at in self._suspects]
        if not cleared:
            return
        for chunk in cleared:
            at = chunk.at
            self._fails.pop(at, None)
            self._poison.pop(at, None)
            if chunk.next_position >= self._suspects[at]:
                del self._suspects[at]
        self._max_records *= 2

    def record_failure(self, chunks: Sequence[Chunk], failure: BaseException) -> None:
        """Call it when a turn of these chunks failed."""
        taken = [chunk for chunk in chunks if chunk.records]
        count = sum(len(chunk.records) for chunk in taken)
        if count == 0 or isinstance(failure, FencedError) or not isinstance(failure, Exception):
            return
        known = self.poison(chunks)
        # The cause is among this turn's records. Partitions that were not read keep their suspects.
        waiting = {at: before for at, before in self._suspects.items() if at not in self._offered}
        ends = {at: max(each.next_position for each in taken if each.at == at) for at in {each.at for each in taken}}
        self._suspects = waiting | ends
        self._max_records = max(1, count // 2)
        if isinstance(failure, _NOT_THE_RECORD):
            return
        if known is not None:
            self._poison[known.at] = refused = replace(known, refusals=known.refusals + 1)
            self._searching = refused.refusals < _WAYS_TO_REFUSE
        elif count > 1:
            self._searching = True
            log.warning("shard.turn_halved", records=count, reason=repr(failure))
        else:
            self._searching = True
            self._alone(taken[0].at, taken[0].records[0].offset, failure)

    def _alone(self, at: TopicPartition, offset: int, failure: Exception) -> None:
        """Counts a failure of a record in a turn of its own."""
        first, before = self._fails.get(at, (offset, 0))
        fails = before + 1 if first == offset else 1
        self._fails[at] = offset, fails
        if fails >= _FAILS:
            log.error("shard.poison_record", at="/".join(map(str, (*at, offset))), reason=repr(failure))
            self._poison[at] = PoisonRecord(at, offset, failure)

    def _count_suspects(self, chunk: Chunk) -> int:
        """The number of suspects at the beginning of a chunk."""
        before = self._suspects.get(chunk.at)
        if before is None:
            return 0
        return sum(record.offset < before for record in chunk.records)
