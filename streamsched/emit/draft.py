"""What happened, before anybody has stamped it: the constructors a job calls.

>>> partitions_added("flights", ["day=2013-01-01"]).fact.count
1
>>> str(stream_size("logs", 4096).fact.stream)
'default.logs'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote
from uuid import uuid4

from streamsched.domain.errors import InvalidError
from streamsched.domain.event import (
    CustomHappened,
    Event,
    Fact,
    Outcome,
    Partition,
    PartitionsAdded,
    ProgramReached,
    StreamSize,
    Ticked,
)
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, StreamRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A fact on its way into an envelope; what is None the emitter stamps.

    Attributes:
        id: give a deterministic one when the same event may be said twice: the repeat is recognised.
        time: when it happened; aware.
        source: who says so; a repeat is only recognised from the same source.
    """

    fact: Fact
    id: str | None = None
    time: datetime | None = None
    source: str | None = None


def partitions_added(
    dataset: str | DatasetRef,
    partitions: Iterable[str | Partition],
    *,
    event_id: str | None = None,
    time: datetime | None = None,
    source: str | None = None,
) -> Draft:
    """A commit added these partitions; a key such as `year=2013/month=1` says its values by itself.

    Raises:
        InvalidError: no partition is named, or the dataset's name is none.
    """
    named = tuple(p if isinstance(p, Partition) else Partition(p, hive_values(p)) for p in partitions)
    if not named:
        raise InvalidError("$.partitions", "names no partition: a commit adds at least one")
    ref = dataset if isinstance(dataset, DatasetRef) else DatasetRef.parse(dataset)
    return Draft(fact=PartitionsAdded(ref, named, len(named)), id=event_id, time=time, source=source)


def stream_size(
    stream: str | StreamRef,
    size: int,
    *,
    absolute: bool = True,
    event_id: str | None = None,
    time: datetime | None = None,
    source: str | None = None,
) -> Draft:
    """A stream has `size` bytes (`absolute`), or grew by so many since the last report.

    Raises:
        InvalidError: a negative size, or the stream's name is none.
    """
    if size < 0:
        raise InvalidError("$.bytes", f"must be at least 0 but is {size}")
    ref = stream if isinstance(stream, StreamRef) else StreamRef.parse(stream)
    return Draft(fact=StreamSize(ref, size, absolute), id=event_id, time=time, source=source)


def program_status(
    program: str | ProgramRef,
    run_id: str,
    outcome: str | Outcome,
    *,
    arguments: Mapping[str, str] | None = None,
    ended_at: datetime | None = None,
    error: str | None = None,
    event_id: str | None = None,
    time: datetime | None = None,
    source: str | None = None,
) -> Draft:
    """A run of a program, which may run anywhere, reached an outcome.

    Raises:
        InvalidError: no such outcome, or the program is not `namespace.app.name`.
    """
    if outcome not in tuple(Outcome):
        raise InvalidError("$.outcome", f"must be one of {', '.join(Outcome)} but is '{outcome}'")
    ref = program if isinstance(program, ProgramRef) else ProgramRef.parse(program)
    fact = ProgramReached(ref, run_id, Outcome(outcome), arguments or {}, ended_at, error)
    return Draft(fact=fact, id=event_id, time=time, source=source)


def custom(
    name: str | EventName,
    attributes: Mapping[str, str] | None = None,
    *,
    event_id: str | None = None,
    time: datetime | None = None,
    source: str | None = None,
) -> Draft:
    """Anything you name.

    Raises:
        InvalidError: the name is none.
    """
    ref = name if isinstance(name, EventName) else EventName.parse(name)
    return Draft(fact=CustomHappened(ref, attributes or {}), id=event_id, time=time, source=source)


def stamped(what: Draft | Event, *, source: str, now: datetime) -> Event:
    """The event in its envelope. Stamp once, before the first try: every retry then carries the same id.

    Raises:
        InvalidError: a tick, which only the timers make, or a time without an offset.
    """
    if isinstance(what.fact, Ticked):
        raise InvalidError("$.type", "is a tick, and only the timers make those")
    if isinstance(what, Event):
        return what
    time = now if what.time is None else what.time
    if time.tzinfo is None:
        raise InvalidError("$.time", "must name its offset from UTC")
    return Event(what.id or str(uuid4()), what.source or source, time.astimezone(UTC), what.fact)


def hive_values(key: str) -> dict[str, str]:
    """The columns a Hive style key names.

    >>> hive_values("year=2013/name=a%2Fb")
    {'year': '2013', 'name': 'a/b'}
    """
    pairs = (part.partition("=") for part in key.split("/"))
    return {unquote(column): unquote(value) for column, equals, value in pairs if equals}
