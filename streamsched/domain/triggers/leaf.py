"""Leaves: the elementary conditions of a trigger. Identified by value (`leaf_id`), so equal leaves of a trigger share
an accumulation, and a changed trigger can keep compatible state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final, assert_never

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.events.event import Outcome, custom_key, partition_key, program_key, stream_key
from streamsched.domain.events.match import ANYTHING, Match
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, StreamRef
from streamsched.domain.triggers.composite import Composable, at_least_one
from streamsched.domain.triggers.time_leaf import At, Cron, Every, SinceLastRun, TimeLeaf, tick_id


def _match_text(match: Match) -> str:
    return f" where {match}" if match else ""


#: Suffix in the text of a leaf that counts every commit; counting a partition once is the default.
EVERY_COMMIT: Final = " (every commit)"


_SINCE_LAST_RUN: Final = "since_last_run"


def _distinct_id(distinct: bool) -> str:
    """The part of a leaf's id for leaves that count a partition once; none for those that count every commit."""
    return ":distinct" if distinct else ""


def _filter_id(match: Match) -> str:
    return f"?{match.id}" if match else ""


@dataclass(frozen=True, slots=True)
class Partitions(Composable):
    """`count` new partitions of a dataset; one commit of seven counts seven.

    With a `match`, only those whose values it accepts; partitions without a name are not accepted. `distinct`: one that
    is rewritten before the trigger fires counts once; otherwise every commit counts (ADR 10).
    """

    dataset: DatasetRef
    count: int = 1
    match: Match = ANYTHING
    distinct: bool = True

    def __post_init__(self) -> None:
        at_least_one("count", self.count)

    def __str__(self) -> str:
        every = "" if self.distinct else EVERY_COMMIT
        some = f"{self.count} new partition{'s' if self.count > 1 else ''}"
        return f"{some} of {self.dataset}{_match_text(self.match)}{every}"


class Measure(StrEnum):
    """What a total adds up."""

    BYTES = "bytes"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Total(Composable):
    """New partitions of a dataset, together that many bytes or rows. One of unknown size adds nothing.

    `distinct`: for a partition rewritten before the trigger fires, only its newest size counts.
    """

    dataset: DatasetRef
    measure: Measure
    amount: int
    match: Match = ANYTHING
    distinct: bool = True

    def __post_init__(self) -> None:
        at_least_one("amount", self.amount)

    def __str__(self) -> str:
        every = "" if self.distinct else EVERY_COMMIT
        return f"{self.amount} new {self.measure} in {self.dataset}{_match_text(self.match)}{every}"


@dataclass(frozen=True, slots=True)
class StreamGrowth(Composable):
    """A stream grew by `bytes` since the last satisfaction."""

    stream: StreamRef
    bytes: int

    def __post_init__(self) -> None:
        at_least_one("bytes", self.bytes)

    def __str__(self) -> str:
        return f"{self.bytes} new bytes of {self.stream}"


@dataclass(frozen=True, slots=True)
class ProgramStatus(Composable):
    """A program's runs with arguments that `match` accepts reached one of `outcomes`, `times` times."""

    program: ProgramRef
    outcomes: frozenset[Outcome] = frozenset({Outcome.SUCCEEDED})
    times: int = 1
    match: Match = ANYTHING

    def __post_init__(self) -> None:
        at_least_one("times", self.times)
        if not self.outcomes:
            raise InvalidDefinitionError("$.outcomes", "names no outcome, so it could never hold")

    def __str__(self) -> str:
        outcomes = " or ".join(sorted(self.outcomes))
        return f"{self.program} {outcomes}{_match_text(self.match)}" + (
            f" {self.times} times" if self.times > 1 else ""
        )


@dataclass(frozen=True, slots=True)
class CustomEvent(Composable):
    """`times` custom events of that name with attributes that `match` accepts."""

    name: EventName
    times: int = 1
    match: Match = ANYTHING

    def __post_init__(self) -> None:
        at_least_one("times", self.times)

    def __str__(self) -> str:
        return f"event {self.name}{_match_text(self.match)}" + (f" {self.times} times" if self.times > 1 else "")


EventLeaf = Partitions | Total | StreamGrowth | ProgramStatus | CustomEvent
#: A leaf that the timers tell of; it listens to no event key.
TickingLeaf = TimeLeaf | SinceLastRun
Leaf = TickingLeaf | EventLeaf


def needed_amount(leaf: Leaf) -> int:
    """How much a leaf needs, in its own unit."""
    match leaf:
        case Cron() | Every() | At() | SinceLastRun():
            return 1
        case Partitions(count=count):
            return count
        case StreamGrowth(bytes=amount) | Total(amount=amount):
            return amount
        case ProgramStatus(times=times) | CustomEvent(times=times):
            return times
        case _:
            assert_never(leaf)


def compatible_id(leaf: Leaf) -> str:
    """The leaf's id without the amount: equal for leaves that can take over each other's accumulation."""
    match leaf:
        case Cron() | Every() | At() | SinceLastRun():
            return leaf_id(leaf)
        case Partitions():
            return leaf_id(replace(leaf, count=1, distinct=False))
        case StreamGrowth():
            return leaf_id(replace(leaf, bytes=1))
        case Total():
            return leaf_id(replace(leaf, amount=1, distinct=False))
        case ProgramStatus() | CustomEvent():
            return leaf_id(replace(leaf, times=1))
        case _:
            assert_never(leaf)


def leaf_id(leaf: Leaf) -> str:
    """A leaf's identity: a stable text, equal exactly for equal leaves."""
    match leaf:
        case Cron() | Every() | At():
            return tick_id(leaf)
        case SinceLastRun(duration=duration):
            return f"{_SINCE_LAST_RUN}:{duration.total_seconds():.15g}s"
        case Partitions(dataset=dataset, count=count, match=wanted, distinct=distinct):
            return f"partitions:{dataset}:{count}{_distinct_id(distinct)}{_filter_id(wanted)}"
        case Total(dataset=dataset, measure=measure, amount=amount, match=wanted, distinct=distinct):
            return f"total:{dataset}:{measure}:{amount}{_distinct_id(distinct)}{_filter_id(wanted)}"
        case StreamGrowth(stream=stream, bytes=amount):
            return f"stream:{stream}:{amount}"
        case ProgramStatus(program=program, outcomes=outcomes, times=times, match=wanted):
            return f"program:{program}:{'+'.join(sorted(outcomes))}:{times}{_filter_id(wanted)}"
        case CustomEvent(name=name, times=times, match=wanted):
            return f"event:{name}:{times}{_filter_id(wanted)}"
        case _:
            assert_never(leaf)


def since_last_run_of(name: str) -> timedelta | None:
    """The duration of the `SinceLastRun` with this leaf id; None for any other leaf."""
    head, _, seconds = name.partition(":")
    return timedelta(seconds=float(seconds[:-1])) if head == _SINCE_LAST_RUN else None


def leaf_keys(leaf: Leaf) -> tuple[str, ...]:
    """The event keys one leaf listens to."""
    match leaf:
        case Cron() | Every() | At() | SinceLastRun():
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
