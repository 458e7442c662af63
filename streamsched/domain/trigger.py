"""Triggers: pure values that say when a schedule is satisfied. `&` and `|` compose; nesting has no limit.

A trigger never sees a clock, a log or a store. Leaves are identified by their value (`leaf_id`), so equal leaves of one
trigger share one accumulation and editing a trigger can keep what still fits.

    >>> from streamsched.domain.names import DatasetRef
    >>> flights, weather = DatasetRef("default", "flights"), DatasetRef("default", "weather")
    >>> str(Partitions(flights, 7) & Partitions(weather, 7))
    '7 new partitions of default.flights and 7 new partitions of default.weather'
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.event import Outcome, custom_key, partition_key, program_key, stream_key
from streamsched.domain.match import ANYTHING, Match
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, StreamRef


class _Composable:
    """`&` and `|`, flattening like with like."""

    __slots__ = ()

    def __and__(self, other: Trigger) -> AllOf:
        if not isinstance(other, _Composable):
            return NotImplemented
        return AllOf(_children(AllOf, self) + _children(AllOf, other))

    def __or__(self, other: Trigger) -> AnyOf:
        if not isinstance(other, _Composable):
            return NotImplemented
        return AnyOf(_children(AnyOf, self) + _children(AnyOf, other))


def _children(kind: type, trigger: object) -> tuple[Trigger, ...]:
    return trigger.triggers if isinstance(trigger, kind) else (trigger,)  # type: ignore[attr-defined, return-value]


def _where(match: Match) -> str:
    return f" where {match}" if match else ""


def _filter_id(match: Match) -> str:
    return f"?{match.id}" if match else ""


def _at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise InvalidDefinitionError(f"$.{name}", f"must be at least 1 but is {value}")


@dataclass(frozen=True, slots=True)
class Cron(_Composable):
    """A tick at every instant the expression matches in an IANA zone (both judged by `domain.cron`)."""

    expression: str
    zone: str = "UTC"

    def __str__(self) -> str:
        return f"cron '{self.expression}' in {self.zone}"


@dataclass(frozen=True, slots=True)
class Every(_Composable):
    """A tick each `interval` of real time, counted from `start` (UTC), or from the schedule's creation when None."""

    interval: timedelta
    start: datetime | None = None

    def __post_init__(self) -> None:
        if self.interval < timedelta(seconds=1):
            raise InvalidDefinitionError("$.interval", f"must be at least one second but is {self.interval}")
        if self.start is not None and self.start.tzinfo is None:
            raise InvalidDefinitionError("$.start", "must name its offset from UTC")

    def __str__(self) -> str:
        return f"every {self.interval}"


@dataclass(frozen=True, slots=True)
class At(_Composable):
    """One tick at an instant (UTC)."""

    instant: datetime

    def __post_init__(self) -> None:
        if self.instant.tzinfo is None:
            raise InvalidDefinitionError("$.instant", "must name its offset from UTC")

    def __str__(self) -> str:
        return f"at {self.instant.isoformat()}"


@dataclass(frozen=True, slots=True)
class Partitions(_Composable):
    """`count` new partitions of a dataset; one commit of seven counts seven.

    With a `match`, those whose values it accepts; one that its emitter did not name is never accepted.
    """

    dataset: DatasetRef
    count: int = 1
    match: Match = ANYTHING

    def __post_init__(self) -> None:
        _at_least_one("count", self.count)

    def __str__(self) -> str:
        return f"{self.count} new partition{'s' if self.count > 1 else ''} of {self.dataset}{_where(self.match)}"


class Measure(StrEnum):
    """What a total adds up."""

    BYTES = "bytes"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Total(_Composable):
    """New partitions of a dataset, together that many bytes or rows. One whose size nobody said adds nothing."""

    dataset: DatasetRef
    measure: Measure
    amount: int
    match: Match = ANYTHING

    def __post_init__(self) -> None:
        _at_least_one("amount", self.amount)

    def __str__(self) -> str:
        return f"{self.amount} new {self.measure} in {self.dataset}{_where(self.match)}"


@dataclass(frozen=True, slots=True)
class StreamGrowth(_Composable):
    """A stream grew by `bytes` since the last satisfaction."""

    stream: StreamRef
    bytes: int

    def __post_init__(self) -> None:
        _at_least_one("bytes", self.bytes)

    def __str__(self) -> str:
        return f"{self.bytes} new bytes of {self.stream}"


@dataclass(frozen=True, slots=True)
class ProgramStatus(_Composable):
    """A program's runs reached one of `outcomes`, `times` times."""

    program: ProgramRef
    outcomes: frozenset[Outcome] = frozenset({Outcome.SUCCEEDED})
    times: int = 1

    def __post_init__(self) -> None:
        _at_least_one("times", self.times)
        if not self.outcomes:
            raise InvalidDefinitionError("$.outcomes", "names no outcome, so it could never hold")

    def __str__(self) -> str:
        outcomes = " or ".join(sorted(self.outcomes))
        return f"{self.program} {outcomes}" + (f" {self.times} times" if self.times > 1 else "")


@dataclass(frozen=True, slots=True)
class CustomEvent(_Composable):
    """A custom event, with attributes that `match` accepts, came `times` times."""

    name: EventName
    times: int = 1
    match: Match = ANYTHING

    def __post_init__(self) -> None:
        _at_least_one("times", self.times)

    def __str__(self) -> str:
        return f"event {self.name}{_where(self.match)}" + (f" {self.times} times" if self.times > 1 else "")


@dataclass(frozen=True, slots=True)
class AllOf(_Composable):
    """Every child holds."""

    triggers: tuple[Trigger, ...]

    def __post_init__(self) -> None:
        if not self.triggers:
            raise InvalidDefinitionError("$.triggers", "must name at least one trigger")

    def __str__(self) -> str:
        return " and ".join(f"({t})" if isinstance(t, AnyOf) else str(t) for t in self.triggers)


@dataclass(frozen=True, slots=True)
class AnyOf(_Composable):
    """At least one child holds."""

    triggers: tuple[Trigger, ...]

    def __post_init__(self) -> None:
        if not self.triggers:
            raise InvalidDefinitionError("$.triggers", "must name at least one trigger")

    def __str__(self) -> str:
        return " or ".join(f"({t})" if isinstance(t, AllOf) else str(t) for t in self.triggers)


@dataclass(frozen=True, slots=True)
class AtLeast(_Composable):
    """`count` of the children hold; one that is named twice counts twice."""

    count: int
    triggers: tuple[Trigger, ...]

    def __post_init__(self) -> None:
        _at_least_one("count", self.count)
        if self.count > len(self.triggers):
            raise InvalidDefinitionError(
                "$.count", f"is {self.count}, but there are only {len(self.triggers)} triggers: it could never hold"
            )

    def __str__(self) -> str:
        return f"at least {self.count} of ({', '.join(map(str, self.triggers))})"


TimeLeaf = Cron | Every | At
EventLeaf = Partitions | Total | StreamGrowth | ProgramStatus | CustomEvent
Leaf = TimeLeaf | EventLeaf
Composite = AllOf | AnyOf | AtLeast
Trigger = Leaf | Composite


def leaves(trigger: Trigger) -> Iterator[Leaf]:
    """The leaves, left to right; equal ones as often as they occur."""
    match trigger:
        case AllOf(triggers=children) | AnyOf(triggers=children) | AtLeast(triggers=children):
            for child in children:
                yield from leaves(child)
        case _:
            yield trigger


def leaf_id(leaf: Leaf) -> str:
    """A leaf's identity: a stable text, equal for equal leaves, different for different ones."""
    match leaf:
        case Cron(expression=expression, zone=zone):
            return f"cron:{expression}@{zone}"
        case Every(interval=interval, start=start):
            return f"every:{interval.total_seconds():.15g}s" + (f"@{start.isoformat()}" if start else "")
        case At(instant=instant):
            return f"at:{instant.isoformat()}"
        case Partitions(dataset=dataset, count=count, match=wanted):
            return f"partitions:{dataset}:{count}{_filter_id(wanted)}"
        case Total(dataset=dataset, measure=measure, amount=amount, match=wanted):
            return f"total:{dataset}:{measure}:{amount}{_filter_id(wanted)}"
        case StreamGrowth(stream=stream, bytes=amount):
            return f"stream:{stream}:{amount}"
        case ProgramStatus(program=program, outcomes=outcomes, times=times):
            return f"program:{program}:{'+'.join(sorted(outcomes))}:{times}"
        case CustomEvent(name=name, times=times, match=wanted):
            return f"event:{name}:{times}{_filter_id(wanted)}"
        case _:
            assert_never(leaf)


def event_keys(trigger: Trigger) -> frozenset[str]:
    """The event keys a schedule with this trigger subscribes to; time leaves have none."""
    return frozenset(key for leaf in leaves(trigger) for key in leaf_keys(leaf))


def leaf_keys(leaf: Leaf) -> tuple[str, ...]:
    """The event keys one leaf listens to."""
    match leaf:
        case Cron() | Every() | At():
            return ()
        case Partitions(dataset=dataset) | Total(dataset=dataset):
            return (partition_key(dataset),)
        case StreamGrowth(stream=stream):
            return (stream_key(stream),)
        case ProgramStatus(program=program, outcomes=outcomes):
            return tuple(program_key(program, outcome) for outcome in sorted(outcomes))
        case CustomEvent(name=name):
            return (custom_key(name),)
        case _:
            assert_never(leaf)
