"""Hypothesis strategies for what users define, in its whole width: triggers, constraints, programs, schedules, apps.

`tests.support.strategies` draws from a small world instead, where what happens often meets who listens.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from streamsched.domain.constraints.constraint import Concurrency, ConcurrencyScope, Constraint, Delay, LastRun
from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.load import Hysteresis, Load
from streamsched.domain.constraints.plugin import PlugIn
from streamsched.domain.constraints.pool import Pool
from streamsched.domain.constraints.rate import Rate, RateScope
from streamsched.domain.constraints.window import TimeWindow
from streamsched.domain.events.event import Outcome
from streamsched.domain.events.lateness import Late, OnLate
from streamsched.domain.events.match import ANYTHING, Glob, Match, OneOf
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.names import AppRef, DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.catchup import CatchUp
from streamsched.domain.schedules.deadline import Deadline, DeadlineKind, OnMiss
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.pause import PauseAfter
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.schedule import (
    WITH_BODY,
    BashJob,
    EnqueueJob,
    Executable,
    HttpJob,
    Misfire,
    OnTimeout,
    Program,
    PublishJob,
    PythonJob,
    Schedule,
    SparkJob,
)
from streamsched.domain.schedules.template import has_placeholder
from streamsched.domain.time.calendar import Calendar, OnClosed
from streamsched.domain.time.dialect import Dialect, InGap, InOverlap
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import (
    AllOf,
    AnyOf,
    At,
    AtLeast,
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
from streamsched.domain.triggers.trigger import leaves as leaves_of

_namespaces = st.sampled_from(["default", "prod_2"])
_names = st.from_regex(r"[a-zA-Z0-9_-]{1,8}", fullmatch=True)
_dotted = st.sampled_from(["flights", "raw.flights", "$tmp", "a-b_c"])
_zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
_counts = st.integers(1, 9)

# Hypothesis wants naive bounds and adds the zone itself.
_FIRST, _LAST = datetime(2000, 1, 1), datetime(2040, 1, 1)  # noqa: DTZ001
instants = st.datetimes(_FIRST, _LAST, timezones=st.just(UTC))
apps = st.builds(AppRef, _namespaces, _names)
programs = st.builds(ProgramRef, _namespaces, _names, _names)
durations = st.timedeltas(timedelta(seconds=1), timedelta(days=400))

_text = partial(st.text, st.characters(exclude_categories=("Cs",), exclude_characters="\0"))
_folders = _text().filter(lambda text: not has_placeholder(text))  # those of programs that are deployed
_wanted = st.builds(OneOf, st.frozensets(_text(max_size=4), min_size=1)) | st.builds(
    Glob, _text(min_size=1, max_size=4)
)
_matches = st.just(ANYTHING) | st.dictionaries(_text(max_size=4), _wanted, max_size=3).map(Match.from_values)


_dates = st.dates(date(2000, 1, 1), date(2040, 1, 1))
# Closes none of the expressions below for good.
calendars = st.builds(
    Calendar.of,
    _text(max_size=4),
    weekdays=st.frozensets(st.sampled_from([5, 6])),
    yearly=st.lists(_dates.map(lambda day: (day.month, day.day)).filter(lambda day: day != (1, 1)), max_size=3),
    spans=st.lists(st.tuples(_dates, _dates).map(lambda both: (min(both), max(both))), min_size=1, max_size=4),
    open=st.lists(_dates, max_size=3),
)
_jitters = st.sampled_from([timedelta(0), timedelta(seconds=1), timedelta(minutes=10)])


def _crons(expressions: list[str], dialect: Dialect) -> st.SearchStrategy[Cron]:
    expression, chosen = st.sampled_from(expressions), st.none() | st.sampled_from(InGap)
    some = expression, _zones, st.just(dialect), chosen, st.none() | st.sampled_from(InOverlap)
    if any(each.startswith("@every") for each in expressions):
        return st.builds(Cron, *some, jitter=_jitters)
    closing = st.tuples(calendars, st.sampled_from(OnClosed)) | st.just((None, OnClosed.SKIP))
    return closing.flatmap(lambda both: st.builds(Cron, *some, st.just(both[0]), st.just(both[1]), _jitters))


leaves: st.SearchStrategy[Trigger] = st.one_of(
    _crons(["* * * * *", "0 4 * * *", "*/15 9-17 * * MON-FRI", "30 0 0 1 JAN *"], Dialect.UNIX),
    _crons(["0 4 * * ?", "0 0 4 LW * ?", "0 0 4 ? * FRI#3"], Dialect.QUARTZ),
    _crons(["0 0 4 * * *", "@every 90s", "0 0 4 13 * FRI"], Dialect.DAPR),
    st.builds(Every, durations, st.none() | instants, jitter=_jitters),
    st.builds(Every, durations, st.none() | instants, calendars, _zones, _jitters),
    st.builds(At, instants),
    st.builds(SinceLastRun, durations),
    st.builds(Partitions, st.builds(DatasetRef, _namespaces, _dotted), _counts, _matches, st.booleans()),
    st.builds(
        Total,
        st.builds(DatasetRef, _namespaces, _dotted),
        st.sampled_from(Measure),
        st.integers(1, 1 << 50),
        _matches,
    ),
    st.builds(StreamGrowth, st.builds(StreamRef, _namespaces, _dotted), st.integers(1, 1 << 50)),
    st.builds(ProgramStatus, programs, st.frozensets(st.sampled_from(Outcome), min_size=1), _counts, _matches),
    st.builds(CustomEvent, st.builds(EventName, _namespaces, _dotted), _counts, _matches),
)

triggers: st.SearchStrategy[Trigger] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(AllOf, st.lists(inner, min_size=1, max_size=4).map(tuple)),
        st.builds(AnyOf, st.lists(inner, min_size=1, max_size=4).map(tuple)),
        st.lists(inner, min_size=1, max_size=4).flatmap(
            lambda some: st.builds(AtLeast, st.integers(1, len(some)), st.just(tuple(some)))
        ),
    ),
    max_leaves=12,
)

_walls = st.builds(time, st.integers(0, 23), st.integers(0, 59), st.sampled_from([0, 0, 0, 30]))
_bands = st.tuples(_counts, _counts).map(lambda pair: Hysteresis(max(pair), min(pair)))
_windows = st.tuples(_walls, _walls).filter(lambda pair: pair[0] != pair[1])


def in_one_pool(some: list[Constraint]) -> bool:
    """A schedule can be in one pool."""
    return sum(isinstance(each, Pool) for each in some) <= 1


constraints: st.SearchStrategy[Constraint] = st.one_of(
    st.builds(Concurrency, _counts, st.booleans(), st.sampled_from(ConcurrencyScope)),
    st.builds(Delay, durations),
    st.builds(
        lambda limit, per, wait, burst, of: Rate(
            limit, per, wait, burst, of, "shared" if of is RateScope.GROUP else None
        ),
        st.integers(1, 1000),
        durations,
        st.booleans(),
        st.none() | _counts,
        st.sampled_from(RateScope),
    ),
    st.builds(
        lambda name, weight, spare, wait: Group(name, weight + spare, weight, wait=wait),
        st.uuids().map(str),
        st.integers(1, 9),
        st.integers(0, 9),
        st.booleans(),
    ),
    st.builds(LastRun, durations, st.booleans()),
    st.builds(
        lambda cores, memory, running, starts, wait: Load("main", cores, memory, running, starts, wait),
        _bands,
        st.none() | _bands,
        st.none() | _bands.map(lambda band: Hysteresis(band.leave, band.enter)),
        _counts,
        st.booleans(),
    ),
    st.builds(PlugIn, st.just("quiet"), st.sampled_from(["{}", '{"a":[1,"é"]}']), st.booleans()),
    st.builds(Pool, st.just("nightly"), _counts, st.integers(-1000, 1000), st.booleans()),
    st.builds(
        lambda walls, zone, wait, calendar: TimeWindow(walls[0], walls[1], zone, wait=wait, calendar=calendar),
        _windows,
        _zones,
        st.booleans(),
        st.none() | calendars,
    ),
)

retries: st.SearchStrategy[Retry] = st.builds(
    lambda attempts, on, delay, more: Retry(attempts, on, delay, delay + more),
    st.integers(1, 100),
    st.frozensets(st.sampled_from(Failure), min_size=1),
    durations,
    durations,
)
deadlines: st.SearchStrategy[Deadline] = st.one_of(
    st.builds(Deadline, st.sampled_from(DeadlineKind), durations, then=st.sampled_from([OnMiss.WARN, OnMiss.CANCEL])),
    st.builds(Deadline, st.sampled_from([DeadlineKind.START, DeadlineKind.FINISH]), at=_walls, zone=_zones),
)
_mappings = st.dictionaries(_text(max_size=6), _text(max_size=6), max_size=3)

executables: st.SearchStrategy[Executable] = st.one_of(
    st.builds(SparkJob, _text(min_size=1), st.lists(_text(), max_size=3).map(tuple), st.none() | _names, _mappings),
    st.builds(BashJob, _text(min_size=1)),
    st.builds(
        SparkJob,
        st.just(""),
        st.lists(_text(), max_size=3).map(tuple),
        module=st.just("tasks.flow"),
        folder=_folders,
        env=st.dictionaries(st.sampled_from(["A", "b_1"]), st.text("ab =", max_size=3), max_size=2),
        env_from_os=st.lists(st.just("HOME"), max_size=1).map(tuple),
        uris=st.lists(st.sampled_from(["a.py", "s3a://b/c.zip"]), max_size=2).map(tuple),
    ),
    st.builds(
        PythonJob,
        st.just("models"),
        st.lists(_text(), max_size=3).map(tuple),
        _folders,
        st.dictionaries(st.sampled_from(["A", "b_1"]), st.text("ab =", max_size=3), max_size=2),
    ),
    st.builds(
        HttpJob,
        _names.map("http://host/{}".format),
        st.sampled_from(sorted(WITH_BODY)),
        _mappings,
        st.none() | _text(),
        durations,
    ),
    st.builds(PublishJob, st.builds(EventName, st.just("default"), _names), _mappings),
    st.builds(
        EnqueueJob, _names.map("q{}".format), _text(), _text(), st.just(timedelta(0)) | durations, st.none() | _text()
    ),
)


_some_time = st.timedeltas(timedelta(milliseconds=1), timedelta(days=40))

#: How missed ticks may be treated: fields of a schedule that go together.
misfires: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries({"misfire": st.sampled_from(Misfire)}),
    st.builds(CatchUp, st.none() | _some_time, st.integers(1, 50), st.just(timedelta(0)) | _some_time).map(
        lambda bounds: {"misfire": Misfire.ALL, "catch_up": bounds}
    ),
    st.builds(CatchUp, _some_time).map(lambda bounds: {"misfire": Misfire.ONE, "catch_up": bounds}),
)


def schedules(
    refs: st.SearchStrategy[ScheduleRef] | None = None, started: st.SearchStrategy[ProgramRef] | None = None
) -> st.SearchStrategy[Schedule]:
    """Schedules of one app and their programs; of `default.orders` where they are not given."""
    app = AppRef("default", "orders")
    return misfires.flatmap(
        lambda said: st.builds(
            Schedule,
            st.builds(ScheduleRef, st.just(app.namespace), st.just(app.app), _names) if refs is None else refs,
            st.builds(ProgramRef, st.just(app.namespace), st.just(app.app), _names) if started is None else started,
            triggers,
            constraints=st.lists(constraints, max_size=3).filter(in_one_pool).map(tuple),
            properties=_mappings,
            description=_text(max_size=9),
            overlap=st.sampled_from(Overlap),
            timeout=st.none() | durations,
            on_timeout=st.sampled_from(OnTimeout),
            consumption=st.sampled_from(Consumption),
            retry=st.none() | retries,
            max_duration=st.none() | durations,
            pause_after=st.none() | st.builds(PauseAfter, st.integers(1, 9), st.booleans(), st.none() | durations),
            deadlines=st.lists(deadlines, max_size=2).map(tuple),
            late=st.none() | st.builds(Late, durations, st.sampled_from(OnLate)),
            **{name: st.just(value) for name, value in said.items()},
        )
    )


@st.composite
def app_definitions(draw: st.DrawFn) -> AppDefinition:
    """Apps whose schedules start programs they have, and wait for anything that can come."""
    app = draw(apps)
    names = draw(st.lists(_names, min_size=1, max_size=3, unique=True))
    programs_of = tuple(
        Program(ProgramRef(app.namespace, app.app, name), draw(executables), draw(_mappings)) for name in names
    )
    refs = [program.ref for program in programs_of]
    defined = tuple(
        draw(schedules(st.just(ScheduleRef(app.namespace, app.app, name)), st.sampled_from(refs)))
        for name in draw(st.lists(_names, max_size=3, unique=True))
    )
    known = {program.ref for program in programs_of}
    waited_for = (
        leaf.program for each in defined for leaf in leaves_of(each.trigger) if isinstance(leaf, ProgramStatus)
    )
    assume(all(program in known or program.owner != app for program in waited_for))
    enabled = draw(st.frozensets(st.sampled_from([each.ref.name for each in defined]))) if defined else frozenset()
    return AppDefinition(app, programs_of, defined, enabled)
