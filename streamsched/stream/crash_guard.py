"""Finds a record that ends the worker process while it is processed, and has it refused (ADR 6).

A record may end a process without an exception: a call that never returns, or memory that runs out. So a process that
runs a shard writes an *attempt* to the shard's changelog when it starts, and removes it when it stops the shard
cleanly. The next owner that finds an attempt makes *careful* turns: few records per turn, and before each turn a commit
that names them. When that process ends too, the next one knows the record, or processes those records one by one. A
record whose turn of its own ended three processes is refused, like one that fails its turns (`stream.poison_search`).
So a record ends at most four processes when it is among the first `SINGLES` after the position, otherwise five.

A careful turn costs one additional commit. Only one shard of a process is in a careful turn at a time, so the attempt
that names records belongs to the shard that was being processed when the process ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

import orjson
import structlog

from streamsched.codec.json.scalar import integer, loads, mapping, sequence, text
from streamsched.domain.errors import DecodeError, StreamschedError
from streamsched.log.topics import ATTEMPT_KEY, TRIGGERS_CHANGELOG
from streamsched.ports.broker import Chunk, Outgoing, TopicPartition
from streamsched.stream.poison_search import PoisonRecord

VERSION: Final = 1
#: Without suspects, the first `SINGLES` careful turns have one record each; then they double up to `LARGEST` records.
SINGLES: Final = 16
LARGEST: Final = 256
#: How many processes must end in a record's own turn before it is refused: two may have been killed by chance.
ENDED: Final = 3
#: The identity of this process.
PROCESS: Final = uuid4().hex

log = structlog.get_logger()


class WorkerEndedError(StreamschedError):
    """The reason why a record is refused that ended worker processes."""

    def __init__(self, processes: int) -> None:
        super().__init__(
            f"{processes} worker processes ended, one after another, while they processed this record alone"
        )
        self.processes = processes


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition: from `start`, up to but not including `stop`."""

    at: TopicPartition
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a careful turn.

    Attributes:
        count: the number of records; offsets may have gaps.
        ended: the number of processes that ended during a turn of exactly these records.
    """

    spans: tuple[Span, ...]
    count: int
    ended: int = 0


@dataclass(frozen=True, slots=True)
class ShardAttempt:
    """One process running a shard.

    Attributes:
        process: a random id.
        turn: the careful turn in flight, if any.
        suspects: the records among which is the one that ended the previous process; None: unknown, or none ended.
    """

    process: str
    turn: Records | None = None
    suspects: Records | None = None


class CrashGuard:
    """One per shard and process; it outlives restarts of the shard."""

    def __init__(self, shard: int, process: str = PROCESS, lock: asyncio.Lock | None = None) -> None:
        """`process` and `lock` are shared by all shards of a process; a careful turn holds the lock."""
        self._shard = shard
        self._process = process
        self._lock = lock or asyncio.Lock()
        self._holds = False
        self._suspects: Records | None = None
        #: The number of records still to be processed in careful turns, and of those already processed.
        self._careful = 0
        self._processed = 0
        self._max_records = 1
        #: The suspects that remain after the turn in flight, and the number of its records.
        self._pending: tuple[Records | None, int] | None = None

    @property
    def careful(self) -> bool:
        """Whether the next turn is careful."""
        return self._careful > 0 or self._suspects is not None

    def take_over(self, attempt: ShardAttempt | None, *, records: int) -> Outgoing:
        """Takes over from the process that wrote `attempt` (None: it stopped cleanly). `records`: the number of records
        to process carefully if it did not, at least the size of any turn. Returns the attempt of this process, to be
        committed before any turn.
        """
        if attempt is not None and attempt.process != self._process:
            turn = attempt.turn
            if turn is not None:
                turn = replace(turn, ended=turn.ended + 1)
            self._suspects = turn or attempt.suspects
            self._careful, self._processed, self._max_records = records, 0, 1
            log.warning(
                "shard.taken_over_carefully",
                shard=self._shard,
                suspects=0 if self._suspects is None else self._suspects.count,
                reason="the previous process did not stop this shard cleanly; a record may have ended it",
            )
        return self._mark(None, self._suspects)

    def split(self, chunks: Sequence[Chunk]) -> tuple[list[Chunk], list[Chunk]]:
        """The records of the next careful turn, and the rest. Order within a partition is kept."""
        room = self._room(chunks)
        taken: list[Chunk] = []
        left: list[Chunk] = []
        waiting: set[TopicPartition] = set()
        for chunk in chunks:
            count = min(room, len(chunk.records))
            room -= count
            if count == len(chunk.records) and chunk.at not in waiting:
                taken.append(chunk)
                continue
            waiting.add(chunk.at)
            if count:
                first = chunk.records[:count]
                taken.append(chunk._replace(records=first, next_position=first[-1].offset + 1))
            left.append(chunk._replace(records=chunk.records[count:]))
        return taken, left

    async def begin(self, chunks: Sequence[Chunk]) -> Outgoing:
        """Begins a careful turn, waiting while another shard is in one. Returns the attempt to commit before it."""
        if not self._holds:
            await self._lock.acquire()
            self._holds = True
        return self._mark(self._records(chunks), self._suspects)

    def poison(self, chunks: Sequence[Chunk]) -> PoisonRecord | None:
        """The only record of the turn when it has ended `ENDED` processes; else None."""
        suspects, turn = self._suspects, self._records(chunks)
        if suspects is None or turn.count != 1 or turn.ended < ENDED:
            return None
        (span,) = turn.spans
        log.error("shard.poison_record", at="/".join(map(str, (*span.at, span.start))), ended=turn.ended)
        return PoisonRecord(span.at, span.start, WorkerEndedError(turn.ended), refusals=turn.ended - ENDED)

    def after(self, chunks: Sequence[Chunk]) -> Outgoing:
        """The attempt to commit with a careful turn of these records; call `record_commit` afterwards."""
        count = sum(len(chunk.records) for chunk in chunks)
        suspects = self._suspects
        if suspects is not None:
            reached = {chunk.at: chunk.next_position for chunk in chunks}
            spans = [replace(span, start=max(span.start, reached.get(span.at, span.start))) for span in suspects.spans]
            rest = tuple(span for span in spans if span.start < span.stop)
            if rest != suspects.spans:
                suspects = Records(rest, max(1, suspects.count - count)) if rest else None
        self._pending = suspects, count
        return self._mark(None, suspects)

    def record_commit(self) -> None:
        """Call it when the turn is committed."""
        if self._pending is not None:
            (self._suspects, count), self._pending = self._pending, None
            self._processed += count
            self._careful = max(0, self._careful - count)
            if self._processed > SINGLES:
                self._max_records = min(LARGEST, self._max_records * 2)
        self.release()

    def idle(self) -> None:
        """Call it when a read returned nothing: every record the previous process may have read is processed."""
        self._careful, self._suspects = 0, None

    def release(self) -> None:
        """Ends a careful turn that was not committed. Idempotent."""
        self._pending = None
        if self._holds:
            self._holds = False
            self._lock.release()

    def clean_stop(self) -> Outgoing:
        """The record to commit when the shard stops cleanly."""
        return Outgoing(TRIGGERS_CHANGELOG, self._shard, ATTEMPT_KEY, None)

    def _room(self, chunks: Sequence[Chunk]) -> int:
        if self._suspects is None:
            return self._max_records
        spans = {span.at: span for span in self._suspects.spans}
        near = any(
            (span := spans.get(chunk.at)) is not None and chunk.records and chunk.records[0].offset < span.stop
            for chunk in chunks
        )
        return 1 if near else self._max_records

    def _records(self, chunks: Sequence[Chunk]) -> Records:
        filled = [chunk for chunk in chunks if chunk.records]
        spans = tuple(Span(chunk.at, chunk.records[0].offset, chunk.next_position) for chunk in filled)
        count = sum(len(chunk.records) for chunk in filled)
        known = self._suspects
        same = known is not None and count == 1 and known.count == 1 and _starts(known) == _starts(Records(spans, 1))
        return Records(spans, count, known.ended if same and known is not None else 0)

    def _mark(self, turn: Records | None, suspects: Records | None) -> Outgoing:
        value = encode(ShardAttempt(self._process, turn, suspects))
        return Outgoing(TRIGGERS_CHANGELOG, self._shard, ATTEMPT_KEY, value)


def encode(attempt: ShardAttempt) -> bytes:
    """As JSON: `{"v": 1, "process": text, "turn"?: records, "suspects"?: records}`, records being `{"spans": [[topic,
    partition, start, stop], …], "count": n, "ended": n}`.
    """
    document: dict[str, object] = {"v": VERSION, "process": attempt.process}
    for name, records in (("turn", attempt.turn), ("suspects", attempt.suspects)):
        if records is not None:
            spans = [[*span.at, span.start, span.stop] for span in records.spans]
            document[name] = {"spans": spans, "count": records.count, "ended": records.ended}
    return orjson.dumps(document)


def decode(raw: bytes) -> ShardAttempt:
    """The attempt that `encode` wrote.

    Raises:
        DecodeError: the bytes are not an attempt of a known version.
    """
    found = mapping(loads(raw), "$")
    if (version := integer(found.get("v"), "$.v", minimum=1)) != VERSION:
        raise DecodeError("$.v", f"is version {version}; this code knows {VERSION}")
    return ShardAttempt(
        text(found.get("process"), "$.process"), *(_read(found.get(name)) for name in ("turn", "suspects"))
    )


def _read(value: object) -> Records | None:
    if value is None:
        return None
    found = mapping(value, "$")
    spans: list[Span] = []
    for item in sequence(found.get("spans"), "$.spans"):
        topic, partition, start, stop = sequence(item, "$.spans")
        at = TopicPartition(text(topic, "$.spans"), integer(partition, "$.spans"))
        spans.append(Span(at, integer(start, "$.spans"), integer(stop, "$.spans")))
    return Records(tuple(spans), integer(found.get("count"), "$.count"), integer(found.get("ended"), "$.ended"))


def _starts(records: Records) -> list[tuple[TopicPartition, int]]:
    return [(span.at, span.start) for span in records.spans]
