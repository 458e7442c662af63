"""Event drafts, and the functions that construct them.

>>> partitions_added("flights", ["day=2013-01-01"]).fact.count
1
>>> str(stream_size("logs", 4096).fact.stream)
'default.logs'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeVar
from urllib.parse import unquote
from uuid import uuid4

from streamsched.domain.errors import InvalidError
from streamsched.domain.events.event import (
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
from streamsched.domain.jobs.run_commit import MOST_PARTITIONS
from streamsched.domain.limits import check_count
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, StreamRef
from streamsched.emit.destination import namespace
from streamsched.emit.trace import this_context

_T = TypeVar("_T")
#: The folder of null and of the empty text.
_NULL_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
#: Characters that Hive and Spark escape in names of folders.
_HIVE_ESCAPED: Final = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
#: Most characters of an invalid key in an error.
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDraft:
    """A fact with an incomplete envelope; the emitter fills fields that are None.

    Attributes:
        id: with a deterministic id, a repeated event is recognised as a duplicate.
        time: when it happened; timezone-aware.
        source: duplicates are recognised per source.
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
    run: str = "",
) -> EventDraft:
    """A commit added these partitions. Column values are parsed from keys such as `year=2013/month=1`. `run`: the id of
    the run that committed them; `run show` shows the commit then.

    Here and below, a name without a namespace is in the namespace of the current run, outside a run in `default`
    (`emit.destination`).

    Raises:
        InvalidError: no partitions, an invalid key, or an invalid dataset name.
    """
    named = tuple(_partition(each, index) for index, each in enumerate(check_keys(partitions, "$.partitions")))
    if not named:
        raise InvalidError("$.partitions", "is empty: a commit adds at least one partition")
    ref = dataset if isinstance(dataset, DatasetRef) else DatasetRef.parse(dataset, namespace())
    return EventDraft(fact=PartitionsAdded(ref, named, len(named), run), id=event_id, time=time, source=source)


def commit_events(
    dataset: DatasetRef, partitions: Sequence[Partition], *, event_id: str, time: datetime | None, run: str = ""
) -> Iterator[EventDraft]:
    """The events of a commit of a file set or table: one, or several with ids that end in `.2`, `.3` … where it has
    many partitions, so that each fits into a record of the log.
    """
    for number, start in enumerate(range(0, len(partitions), MOST_PARTITIONS), 1):
        yield partitions_added(
            dataset,
            partitions[start : start + MOST_PARTITIONS],
            event_id=event_id if number == 1 else f"{event_id}.{number}",
            time=time,
            source=f"/datasets/{dataset}",
            run=run,
        )


def stream_size(
    stream: str | StreamRef,
    size: int,
    *,
    absolute: bool = True,
    event_id: str | None = None,
    time: datetime | None = None,
    source: str | None = None,
) -> EventDraft:
    """A stream has `size` bytes (`absolute`), or grew by `size` bytes since the last report.

    Raises:
        InvalidError: a size below 0 or from 2**63, or an invalid stream name.
    """
    check_count(size, "$.bytes", least=0)
    ref = stream if isinstance(stream, StreamRef) else StreamRef.parse(stream, namespace())
    return EventDraft(fact=StreamSize(ref, size, absolute), id=event_id, time=time, source=source)


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
) -> EventDraft:
    """A run of a program, also one outside streamsched, reached an outcome.

    Raises:
        InvalidError: an unknown outcome, or the program is not `namespace.app.name`.
    """
    if outcome not in tuple(Outcome):
        raise InvalidError("$.outcome", f"must be one of {', '.join(Outcome)} but is '{outcome}'")
    ref = program if isinstance(program, ProgramRef) else ProgramRef.parse(program)
    fact = ProgramReached(ref, run_id, Outcome(outcome), arguments or {}, ended_at, error)
    return EventDraft(fact=fact, id=event_id, time=time, source=source)


def custom(
    name: str | EventName,
    attributes: Mapping[str, str] | None = None,
    *,
    event_id: str | None = None,
    time: datetime | None = None,
    source: str | None = None,
) -> EventDraft:
    """A custom event.

    Raises:
        InvalidError: an invalid name.
    """
    ref = name if isinstance(name, EventName) else EventName.parse(name, namespace())
    return EventDraft(fact=CustomHappened(ref, attributes or {}), id=event_id, time=time, source=source)


def complete_event(what: EventDraft | Event, *, source: str, now: datetime) -> Event:
    """The event with a complete envelope. Call it once, before the first attempt, so that all retries have the same id.

    Raises:
        InvalidError: a tick, which only timers create, or a time without an offset.
    """
    if isinstance(what.fact, Ticked):
        raise InvalidError("$.type", "is a tick, which only timers create")
    if isinstance(what, Event):
        return what
    time = now if what.time is None else what.time
    if time.tzinfo is None:
        raise InvalidError("$.time", "must have an offset from UTC")
    return Event(what.id or str(uuid4()), what.source or source, time.astimezone(UTC), what.fact, this_context())


def check_keys(keys: Iterable[_T], path: str) -> Iterable[_T]:
    """Returns `keys` if it is an iterable of keys; refuses a string, which would be an iterable of its characters.

    Raises:
        InvalidError: a string, bytes, a mapping, one `Partition`, or not iterable.
    """
    if isinstance(keys, str | Partition):
        text = keys.key if isinstance(keys, Partition) else keys
        raise InvalidError(path, f"must be a list of keys but is one, {text[:_SHOWN]!r}: write [{text[:_SHOWN]!r}]")
    if isinstance(keys, Mapping | bytes | bytearray | memoryview) or not isinstance(keys, Iterable):
        raise InvalidError(path, f'must be a list of keys such as ["day=2013-01-01"] but is a {type(keys).__name__}')
    return keys


def _partition(each: str | Partition, index: int) -> Partition:
    path = f"$.partitions[{index}]"
    key = each.key if isinstance(each, Partition) else each
    if not isinstance(key, str):
        raise InvalidError(path, f'must be a key such as "day=2013-01-01" but is a {type(each).__name__}')
    if not key:
        raise InvalidError(path, "is an empty key")
    if not isinstance(each, Partition):
        if "%00" in key:
            raise InvalidError(path, "must not hold a NUL character, %00")
        return Partition(key, hive_values(key))
    for name, count in (("bytes", each.bytes), ("rows", each.rows)):
        if count is not None:
            check_count(count, f"{path}.{name}", least=0)
    return each


def hive_key(values: Mapping[str, str | None]) -> str:
    """The Hive style key of these columns, in their order, escaped as Spark and Hive escape names of folders.

    >>> hive_key({"year": "2013", "name": "a/b", "city": None})
    'year=2013/name=a%2Fb/city=__HIVE_DEFAULT_PARTITION__'
    """
    return "/".join(f"{_escape(column)}={_escape(value) if value else _NULL_VALUE}" for column, value in values.items())


def hive_values(key: str) -> dict[str, str]:
    """The columns and values in a Hive style key.

    >>> hive_values("year=2013/name=a%2Fb")
    {'year': '2013', 'name': 'a/b'}
    """
    pairs = (part.partition("=") for part in key.split("/"))
    return {unquote(column): unquote(value) for column, equals, value in pairs if equals}


def _escape(text: str) -> str:
    return _HIVE_ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)
