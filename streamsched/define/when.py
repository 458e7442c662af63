"""When a schedule fires: `partitions("flights", 7) & partitions("weather", 7) | cron("0 6 * * *", "Europe/Berlin")`.

Names without a namespace are those of the app that uses the trigger, so a `When` becomes a trigger there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from streamsched.codec.reading import anchored, below
from streamsched.define.phrase import When, quoted
from streamsched.define.quantity import Duration, Instant, Size, choice, duration, instant, size, whole
from streamsched.domain.calendar import Calendar, OnClosed
from streamsched.domain.cron import check_cron
from streamsched.domain.dialect import Dialect, InGap, InOverlap
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.event import Outcome
from streamsched.domain.match import ANYTHING, Glob, Match, OneOf, Wanted
from streamsched.domain.names import AppRef, DatasetRef, EventName, ProgramRef, StreamRef
from streamsched.domain.trigger import (
    At,
    Cron,
    CustomEvent,
    Every,
    Measure,
    Partitions,
    ProgramStatus,
    StreamGrowth,
    Total,
    Trigger,
)

#: What is wanted of a column or attribute: a value, one of several, or what `glob` says. Whole numbers are their text.
Asked = str | int | Glob | Iterable[str | int]


def partitions(dataset: str, count: int = 1, *, match: Mapping[str, Asked] | None = None) -> When:
    """`count` new partitions of a dataset (`"name"` or `"namespace.name"`); one commit of seven counts seven.

    With a `match`, only those whose columns are as it says, such as
    `{"region": "EU", "airline": {"AA", "DL"}, "day": glob("2013-01-*")}`; the job is told of these alone.
    """
    return quoted(
        f"partitions({dataset!r}, {count!r})",
        lambda app: Partitions(DatasetRef.parse(dataset, app.namespace), whole(count, "$.count"), _match(match)),
    )


def total(dataset: str, measure: str, amount: Size, *, match: Mapping[str, Asked] | None = None) -> When:
    """New partitions of a dataset, together so many `"bytes"` (a number, or a text such as `"64MB"`) or `"rows"`.

    A partition whose size its emitter did not say adds nothing; `match` as of `partitions`.
    """
    known = {each.value: each for each in Measure}

    def build(app: AppRef) -> Trigger:
        if measure not in known:
            raise InvalidDefinitionError("$.measure", f"must be one of {', '.join(known)} but is {measure!r}")
        chosen = known[measure]
        wanted = size(amount, "$.amount") if chosen is Measure.BYTES else _rows(amount)
        return Total(DatasetRef.parse(dataset, app.namespace), chosen, wanted, _match(match))

    return quoted(f"total({dataset!r}, {measure!r}, {amount!r})", build)


def stream_size(stream: str, amount: Size) -> When:
    """A stream grew by that much since the last satisfaction: bytes, or a text such as `"64MB"`."""
    return quoted(
        f"stream_size({stream!r}, {amount!r})",
        lambda app: StreamGrowth(StreamRef.parse(stream, app.namespace), size(amount, "$.amount")),
    )


def program(ref: ProgramRef | str, *outcomes: str, times: int = 1) -> When:
    """A program's runs `"succeeded"` (the default), `"failed"`, were `"killed"` or `"started"`; any of those given.

    The program is what `App.spark` returned, a name in the same app, or `"namespace.app.program"`.
    """
    known = {outcome.value: outcome for outcome in Outcome}

    def build(app: AppRef) -> Trigger:
        for outcome in outcomes:
            if outcome not in known:
                raise InvalidDefinitionError("$.outcomes", f"must be one of {', '.join(known)} but is {outcome!r}")
        chosen = frozenset(known[outcome] for outcome in outcomes or ("succeeded",))
        return ProgramStatus(_program(ref, app), chosen, whole(times, "$.times"))

    return quoted(f"program({', '.join([repr(str(ref)), *map(repr, outcomes)])})", build)


def event(name: str, times: int = 1, *, match: Mapping[str, Asked] | None = None) -> When:
    """A custom event (`"name"` or `"namespace.name"`) came that many times; with a `match`, with such attributes."""
    return quoted(
        f"event({name!r}, {times!r})",
        lambda app: CustomEvent(EventName.parse(name, app.namespace), whole(times, "$.times"), _match(match)),
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
) -> When:
    """A tick at every match of a cron expression in an IANA zone.

    Args:
        expression: five fields, or six that start with seconds.
        zone: whose wall clock is meant.
        dialect: `"unix"`, as in crontab(5); `"quartz"`, where Sunday is 1 and `?`, `L`, `W` and `#` are known;
            `"dapr"`, six fields, `@every 90s`.
        in_gap: a time that the clock skips ticks once right `"after"` the gap (the default but in Dapr's dialect), or
            is left out: `"skip"`. Where every hour matches, ticks follow real time whatever is chosen.
        in_overlap: of a time that the clock shows twice the `"first"`, the `"second"` or `"both"` tick. Left out: the
            first; both where the minute starts with `*`, and in Dapr's dialect.
        calendar: what `calendar` made: days that are closed.
        on_closed: ticks of a closed day are left out (`"skip"`), or move to the `"next"` or `"previous"` open day.
        jitter: each tick fires up to this long after its time, always by the same amount; never after the next is due.
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

    return quoted(f"cron({expression!r}, {zone!r})", build)


def every(
    interval: Duration,
    *,
    start: Instant | None = None,
    calendar: Calendar | None = None,
    zone: str = "UTC",
    jitter: Duration | None = None,
) -> When:
    """A tick each `interval` of real time, from `start` on, or from one interval after the schedule's creation; none on
    days that the calendar closes in `zone`. `jitter` as of `cron`.
    """

    def build(_: AppRef) -> Trigger:
        begin = None if start is None else instant(start, "$.start")
        return Every(duration(interval, "$.interval"), begin, calendar, zone, _jitter(jitter))

    return quoted(f"every({str(interval)!r})", build)


def _jitter(given: Duration | None) -> timedelta:
    return timedelta(0) if given is None else duration(given, "$.jitter")


def at(moment: Instant) -> When:
    """One tick at an instant: an aware datetime, or a text such as `"2013-01-08T04:00+01:00"`."""
    return quoted(f"at({str(moment)!r})", lambda _: At(instant(moment, "$.moment")))


def glob(pattern: str) -> Glob:
    """In a `match`: like this pattern as a whole. `*` is any text, `?` any character, `[ab]` one of these."""
    return Glob(pattern)


def _match(given: Mapping[str, Asked] | None) -> Match:
    if given is None:
        return ANYTHING
    if not isinstance(given, Mapping):
        raise InvalidDefinitionError("$.match", f"must be a mapping from column to what is wanted but is {given!r}")
    return Match.of({column: _wanted(asked, below("$.match", column)) for column, asked in given.items()})


def _wanted(asked: Asked, path: str) -> Wanted:
    if isinstance(asked, Glob):
        return asked
    several = asked if isinstance(asked, Iterable) and not isinstance(asked, str) else (asked,)
    with anchored(path):
        return OneOf(frozenset(_value(each) for each in several))


def _value(value: object) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise InvalidDefinitionError("$", f"must be a text, a whole number, several of these or a glob but is {value!r}")


def _rows(amount: Size) -> int:
    if isinstance(amount, str):
        raise InvalidDefinitionError("$.amount", f"must be a whole number of rows but is {amount!r}")
    return whole(amount, "$.amount")


def _program(ref: ProgramRef | str, app: AppRef) -> ProgramRef:
    if isinstance(ref, ProgramRef):
        return ref
    return ProgramRef.parse(ref) if "." in ref else ProgramRef(app.namespace, app.app, ref)
