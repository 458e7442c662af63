"""Where a run comes from: what made it, the source of each of its arguments, and its chain of attempts and reruns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from streamsched.domain.jobs.argument_mapping import mapped_arguments
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.arguments import DAY, KEY_PREFIX, LOGICAL_START_TIME, PREFIX, day_of_tick
from streamsched.domain.schedules.key_columns import key_columns
from streamsched.domain.schedules.schedule import Program, Schedule

#: Most runs of a chain.
MOST_CHAINED: Final = 100


class OriginKind(StrEnum):
    """What made a run. START: a person, without a job. NODE: a node of a graph."""

    EVENTS = "events"
    SUBMISSION = "submission"
    RERUN = "rerun"
    BACKFILL = "backfill"
    NODE = "node"
    START = "start"


@dataclass(frozen=True, slots=True)
class RunOrigin:
    """What made a run.

    Attributes:
        text: for people, with who asked for it and why.
        events: the contribution of each leaf of the trigger.
        rerun_of: the run that is repeated.
        backfill, item: the backfill, and the number of the job in it.
    """

    kind: OriginKind
    text: str
    events: tuple[str, ...] = ()
    rerun_of: str | None = None
    backfill: str | None = None
    item: int | None = None


class ArgumentSource(StrEnum):
    """Where an argument comes from. OTHER: a property or a preference that has changed since."""

    DEFAULT = "program default"
    PREFERENCE = "preference of the namespace"
    KEY = "key"
    PROPERTY = "schedule property"
    SUBMISSION = "submission"
    TRIGGER = "trigger"
    OTHER = "changed since"


@dataclass(frozen=True, slots=True)
class ChainedRun:
    """A run of a chain: of the first job, of a rerun of it, of a rerun of that. `run` and what follows: None while the
    job has none. `rerun_of`: the run that its job repeats.
    """

    job: str
    run: str | None
    attempt: int | None
    state: RunState | None
    rerun_of: str | None
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a run comes from.

    Attributes:
        arguments: source by name. It is worked out from the definitions as they are now.
        changed: which of these were changed after the run was made, so that a source may be another than is said.
        chain: the oldest first, at most `MOST_CHAINED` runs.
    """

    origin: RunOrigin
    arguments: Mapping[str, ArgumentSource] = field(default_factory=dict[str, ArgumentSource])
    changed: tuple[str, ...] = ()
    chain: Sequence[ChainedRun] = ()


def origin_of(ready: ReadyJob) -> RunOrigin:
    """What made the runs of a job."""
    events = contributions_of(ready)
    submission = ready.submission
    if submission is None:
        count = sum(len(part.events) for part in ready.contributions)
        owner = "" if ready.schedule is None else f" of schedule {ready.schedule}"
        what = f", correcting job {ready.corrects}" if ready.corrects else ""
        return RunOrigin(OriginKind.EVENTS, f"the trigger{owner}, by {_count_text(count, 'event')}{what}", events)
    if submission.rerun is not None:
        return RunOrigin(OriginKind.RERUN, submission.origin, events, rerun_of=submission.rerun.run)
    if submission.backfill is not None:
        number = submission.job.rpartition(".")[2]
        item = int(number) if number.isdecimal() else None
        return RunOrigin(OriginKind.BACKFILL, submission.origin, events, backfill=submission.backfill, item=item)
    kind = OriginKind.SUBMISSION if submission.node is None else OriginKind.NODE
    return RunOrigin(kind, submission.origin, events)


def contributions_of(ready: ReadyJob) -> tuple[str, ...]:
    """The contribution of each leaf of the trigger, as text."""
    return tuple(
        f"{part.leaf}: {part.count} from {_count_text(len(part.events), 'event')}" for part in ready.contributions
    )


def argument_sources(
    arguments: Mapping[str, str],
    program: Program,
    preferences: Mapping[str, str],
    schedule: Schedule | None,
    ready: ReadyJob | None,
) -> Mapping[str, ArgumentSource]:
    """The source of each argument of a run: the last in the order of precedence that gives it this value.

    Args:
        program: as it was when the run was made.
        schedule: None for a run that no schedule made, or that was deleted since.
        ready: of the run's job; None without one.
    """
    columns = {} if schedule is None or ready is None else key_columns(schedule.trigger, ready.key)
    given: Mapping[str, str] = {} if ready is None or ready.submission is None else ready.submission.arguments
    day = None if schedule is None or ready is None else day_of_tick(schedule.trigger, ready)
    ticked = {} if day is None else {DAY: day}
    mapped = {} if schedule is None or ready is None else mapped_arguments(schedule.properties, ready)
    layers: Sequence[tuple[ArgumentSource, Mapping[str, str]]] = (
        (ArgumentSource.SUBMISSION, given),
        (ArgumentSource.TRIGGER, mapped),
        (ArgumentSource.PROPERTY, {} if schedule is None else schedule.properties),
        (ArgumentSource.KEY, columns | {f"{KEY_PREFIX}{name}": value for name, value in columns.items()}),
        (ArgumentSource.PREFERENCE, preferences),
        (ArgumentSource.DEFAULT, program.arguments),
        (ArgumentSource.TRIGGER, ticked),
    )
    other = ArgumentSource.SUBMISSION if ready is None else ArgumentSource.OTHER
    return {name: _source(name, value, layers, other) for name, value in arguments.items()}


def _source(
    name: str, value: str, layers: Sequence[tuple[ArgumentSource, Mapping[str, str]]], other: ArgumentSource
) -> ArgumentSource:
    for source, layer in layers:
        if layer.get(name) == value:
            return source
    return ArgumentSource.TRIGGER if name.startswith(PREFIX) or name == LOGICAL_START_TIME else other


def _count_text(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
