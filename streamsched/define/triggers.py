"""Simple triggers: `partitions("flights", 7) & partitions("weather", 7) | cron("0 6 * * *", "Europe/Berlin")`.

Names without a namespace belong to the namespace of the app that uses the trigger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from streamsched.codec.json.reading import prefix_errors
from streamsched.define.combinators import TriggerExpression, program_named, quote_errors
from streamsched.define.units import Duration, Instant, Size, check_integer, choice, duration, instant, size
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.events.event import Outcome
from streamsched.domain.events.match import ANYTHING, Glob, Match, OneOf, Wanted
from streamsched.domain.json_value import member_path
from streamsched.domain.names import AppRef, DatasetRef, EventName, ProgramRef, StreamRef
from streamsched.domain.ticks.fire_times import check_cron
from streamsched.domain.time.calendar import Calendar, OnClosed
from streamsched.domain.time.dialect import Dialect, InGap, InOverlap
from streamsched.domain.triggers.trigger import (
    At,
    Cron,
    CustomEvent,
    Every,
    Measure,
    Partitions,
    ProgramStatus,
    SinceLastRun,
    StreamGrowth,
    Total,
    Trigger,
)

#: Accepted values of a column, attribute or argument: one value, several values, or a `glob`. Integers compare as
#: strings.
Accepted = str | int | Glob | Iterable[str | int]


def partitions(
    dataset: str, count: int = 1, *, match: Mapping[str, Accepted] | None = None, distinct: bool = True
) -> TriggerExpression:
    """Holds after `count` new partitions of a dataset (`"name"` or `"namespace.name"`). A commit of seven partitions
    counts seven; a commit with only a number counts that number.

    A partition that is written again before the trigger fires counts once, and the job gets its newest commit. With
    `distinct=False` every commit counts.

    With `match` only partitions with matching columns count, such as
    `{"region": "EU", "airline": {"AA", "DL"}, "day": glob("2013-01-*")}`; the job gets only these.
    """
    return quote_errors(
        f"partitions({dataset!r}, {count!r}{'' if distinct is True else f', distinct={distinct!r}'})",
        lambda app: Partitions(
            DatasetRef.parse(dataset, app.namespace),
            check_integer(count, "$.count"),
            _match(match),
            _check_distinct(distinct),
        ),
    )


def total(
    dataset: str, measure: str, amount: Size, *, match: Mapping[str, Accepted] | None = None, distinct: bool = True
) -> TriggerExpression:
    """Holds after new partitions of a dataset with a total of `amount` `"bytes"` (a number, or a string such as
    `"64MB"`) or `"rows"`.

    A partition without a size in its event adds nothing. Of a partition that is written again before the trigger fires
    the newest size counts; with `distinct=False` the sizes of all commits. `match` as of `partitions`.
    """
    known = {each.value: each for each in Measure}

    def build(app: AppRef) -> Trigger:
        if measure not in known:
            raise InvalidDefinitionError("$.measure", f"must be one of {', '.join(known)} but is {measure!r}")
        unit = known[measure]
        needed = size(amount, "$.amount") if unit is Measure.BYTES else _rows(amount)
        return Total(DatasetRef.parse(dataset, app.namespace), unit, needed, _match(match), _check_distinct(distinct))

    return quote_errors(f"total({dataset!r}, {measure!r}, {amount!r})", build)


def stream_size(stream: str, amount: Size) -> TriggerExpression:
    """Holds when a stream has grown by `amount` since the last satisfaction: bytes, or a string such as `"64MB"`. The
    first report of a whole size only says where growth begins; a report of growth counts from the first on.
    """
    return quote_errors(
        f"stream_size({stream!r}, {amount!r})",
        lambda app: StreamGrowth(StreamRef.parse(stream, app.namespace), size(amount, "$.amount")),
    )


def program(
    ref: ProgramRef | str, *outcomes: str, times: int = 1, match: Mapping[str, Accepted] | None = None
) -> TriggerExpression:
    """Holds after `times` runs of a program with one of the outcomes `"succeeded"` (default), `"failed"`, `"killed"` or
    `"started"`.

    `ref` is the return value of `App.spark` and the like, a name in the same app, or `"namespace.app.program"`.

    With `match` only runs with matching arguments count, such as `{"region": "EU"}`. The key of a run that `per`
    started is among its arguments.
    """
    known = {outcome.value: outcome for outcome in Outcome}

    def build(app: AppRef) -> Trigger:
        for outcome in outcomes:
            if outcome not in known:
                raise InvalidDefinitionError("$.outcomes", f"must be one of {', '.join(known)} but is {outcome!r}")
        chosen = frozenset(known[outcome] for outcome in outcomes or ("succeeded",))
        return ProgramStatus(program_named(ref, app), chosen, check_integer(times, "$.times"), _match(match))

    return quote_errors(f"program({', '.join([repr(str(ref)), *map(repr, outcomes)])})", build)


def event(name: str, times: int = 1, *, match: Mapping[str, Accepted] | None = None) -> TriggerExpression:
    """Holds after `times` custom events (`"name"` or `"namespace.name"`). With `match` only events with matching
    attributes count.
    """
    return quote_errors(
        f"event({name!r}, {times!r})",
        lambda app: CustomEvent(EventName.parse(name, app.namespace), check_integer(times, "$.times"), _match(match)),
    )


def cron(
    expression: str,
    zone: str = "UTC",
    *,
    dialect: Dialect | str = Dialect.UNIX,
    in_gap: InGap | str | None = None,
    in_overlap: InOverlap | str | None = None,
    calendar: Calendar | None = None,
    on_closed: OnClosed | str = OnClosed.SKIP,
    jitter: Duration | None = None,
) -> TriggerExpression:
    """Ticks at every match of a cron expression in an IANA zone.

    Args:
        expression: five fields, or six fields that start with seconds.
        zone: IANA zone of the wall clock.
        dialect: `"unix"`, as in crontab(5); `"quartz"`, where Sunday is 1 and `?`, `L`, `W` and `#` are supported;
            `"dapr"`, six fields or `@every 90s`.
        in_gap: a time that daylight saving skips ticks once at the first instant `"after"` the gap (default except in
            dialect `"dapr"`), or not at all: `"skip"`. An expression that matches every hour follows real time.
        in_overlap: a time that occurs twice ticks the `"first"` time, the `"second"` time or `"both"`. Default: the
            first; both when the minute field starts with `*` and in dialect `"dapr"`.
        calendar: closed days, made by `calendar`.
        on_closed: ticks of a closed day are dropped (`"skip"`) or move to the `"next"` or `"previous"` open day.
        jitter: longest random delay of a tick. The delay of a tick is always the same and ends before the next tick.
    """

    def build(_: AppRef) -> Trigger:
        leaf = Cron(
            expression,
            zone,
            choice(Dialect, dialect, "$.dialect"),
            None if in_gap is None else choice(InGap, in_gap, "$.in_gap"),
            None if in_overlap is None else choice(InOverlap, in_overlap, "$.in_overlap"),
            calendar,
            choice(OnClosed, on_closed, "$.on_closed"),
            _jitter(jitter),
        )
        check_cron(leaf)
        return leaf

    return quote_errors(f"cron({expression!r}, {zone!r})", build)


def every(
    interval: Duration,
    *,
    start: Instant | None = None,
    calendar: Calendar | None = None,
    zone: str = "UTC",
    jitter: Duration | None = None,
) -> TriggerExpression:
    """Ticks every `interval` of real time. The first tick is at `start`, or one interval after the schedule's creation.
    Ticks on days that the calendar closes in `zone` are dropped. `jitter` as of `cron`.
    """

    def build(_: AppRef) -> Trigger:
        begin = None if start is None else instant(start, "$.start")
        return Every(duration(interval, "$.interval"), begin, calendar, zone, _jitter(jitter))

    return quote_errors(f"every({str(interval)!r})", build)


def _jitter(value: Duration | None) -> timedelta:
    return timedelta(0) if value is None else duration(value, "$.jitter")


def at(moment: Instant) -> TriggerExpression:
    """Ticks once, at an instant: an aware datetime, or a string such as `"2013-01-08T04:00+01:00"`."""
    return quote_errors(f"at({str(moment)!r})", lambda _: At(instant(moment, "$.moment")))


def since_last_run(rest: Duration) -> TriggerExpression:
    """Holds when `rest` has passed since the last run of this schedule ended, however it ended, and no job of the
    schedule waits or runs. Until a run has ended, the time counts from when the schedule was enabled or changed.

    `since_last_run("4h") | stream_size("clicks", "100GB")` starts a run after 100 GB or four hours, whichever is first,
    counted from the end of the run before.

    Runs that a person started through the schedule count too, and so does a job that ended without a run. A schedule
    that is enabled again waits the whole time.
    """
    return quote_errors(f"since_last_run({str(rest)!r})", lambda _: SinceLastRun(duration(rest, "$.duration")))


def glob(pattern: str) -> Glob:
    """A pattern that must match a whole value: `*` is any text, `?` any character, `[ab]` one of these."""
    return Glob(pattern)


def _match(columns: Mapping[str, Accepted] | None) -> Match:
    if columns is None:
        return ANYTHING
    if not isinstance(columns, Mapping):
        raise InvalidDefinitionError("$.match", f"must be a mapping from column to accepted values but is {columns!r}")
    return Match.from_values(
        {column: _read_accepted(values, member_path("$.match", column)) for column, values in columns.items()}
    )


def _check_distinct(value: bool) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidDefinitionError("$.distinct", f"must be True or False but is {value!r}")


def _read_accepted(values: Accepted, path: str) -> Wanted:
    if isinstance(values, Glob):
        return values
    several = values if isinstance(values, Iterable) and not isinstance(values, str) else (values,)
    with prefix_errors(path):
        return OneOf(frozenset(_value(each) for each in several))


def _value(value: object) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise InvalidDefinitionError("$", f"must be a text, a whole number, several of these or a glob but is {value!r}")


def _rows(amount: Size) -> int:
    if isinstance(amount, str):
        raise InvalidDefinitionError("$.amount", f"must be a whole number of rows but is {amount!r}")
    return check_integer(amount, "$.amount")
