"""Hypothesis strategies for events, and for triggers of a small world, where what happens often meets who listens.

Everything drawn is well formed. Definitions in their whole width are drawn by `streamsched.testing.definitions`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final, assert_never

from hypothesis import strategies as st

from streamsched.domain.events.ancestors import NO_ANCESTORS
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
from streamsched.domain.events.match import ANYTHING, Glob, Match, OneOf
from streamsched.domain.events.trace_context import TraceContext
from streamsched.domain.fold.accumulation import LIMIT
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import (
    AllOf,
    AnyOf,
    At,
    AtLeast,
    Cron,
    CustomEvent,
    Every,
    Leaf,
    Measure,
    Partitions,
    ProgramStatus,
    SinceLastRun,
    StreamGrowth,
    TickingLeaf,
    Total,
    Trigger,
    leaf_id,
    leaves,
)
from streamsched.emit import EventDraft

#: The schedule of the small world, and its datasets.
SCHEDULE: Final = ScheduleRef("default", "app", "schedule")
DATASETS: Final = (DatasetRef("default", "flights"), DatasetRef("default", "weather.hourly"))
_STREAMS: Final = (StreamRef("default", "clicks"), StreamRef("other", "clicks"))
_PROGRAMS: Final = (ProgramRef("default", "app", "load"), ProgramRef("default", "app", "join"))
_NAMES: Final = (EventName("default", "approved"), EventName("default", "com.example.push"))
_CRONS: Final = (Cron("0 4 * * *"), Cron("0 4 * * *", "Europe/Berlin"))
_EVERY: Final = (Every(timedelta(minutes=5)), Every(timedelta(hours=1), datetime(2013, 1, 1, tzinfo=UTC)))
_AT: Final = (At(datetime(2013, 1, 7, 4, tzinfo=UTC)),)
_SINCE: Final = (SinceLastRun(timedelta(hours=4)),)
_TIMES: Final[tuple[TickingLeaf, ...]] = (*_CRONS, *_EVERY, *_AT, *_SINCE)


#: What draws columns of partitions, and attributes and arguments.
Columns = st.SearchStrategy[dict[str, str]]
#: What a text may hold: neither half a character nor a NUL.
_CHARACTERS: Final = st.characters(exclude_categories=("Cs",), exclude_characters="\0")


def instants() -> st.SearchStrategy[datetime]:
    """Aware instants in UTC, to the microsecond."""
    return st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30)).map(lambda naive: naive.replace(tzinfo=UTC))  # noqa: DTZ001


def words() -> st.SearchStrategy[str]:
    """Text that is not empty, of any script, without surrogates and control characters."""
    return st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)


def texts() -> st.SearchStrategy[dict[str, str]]:
    """Attributes and arguments."""
    return st.dictionaries(words(), st.text(_CHARACTERS, max_size=12), max_size=3)


def sizes() -> st.SearchStrategy[int]:
    """Bytes and rows: often small, sometimes as large as they get."""
    return st.integers(0, 12) | st.integers(0, LIMIT)


def partitions() -> st.SearchStrategy[Partition]:
    """Partitions with any key and columns, some of known size."""
    known = st.none() | sizes()
    return st.builds(Partition, key=words(), values=texts(), bytes=known, rows=known)


@st.composite
def partitions_added(draw: st.DrawFn) -> PartitionsAdded:
    """Commits, some of which name only a part of their partitions."""
    named = tuple(draw(st.lists(partitions(), max_size=3)))
    count = draw(st.integers(max(1, len(named)), len(named) + 3))
    run = draw(st.sampled_from(["", "", "sales.shop.daily.1.1.r1"]))
    return PartitionsAdded(draw(st.sampled_from(DATASETS)), named, count, run)


def partitions_awaiting() -> st.SearchStrategy[PartitionsAdded]:
    """Commits whose statistics follow."""

    def await_partitions(fact: PartitionsAdded) -> PartitionsAdded:
        named = tuple(each._replace(bytes=None, rows=None) for each in fact.partitions)
        return replace(fact, partitions=named, statistics_follow=True)

    return partitions_added().map(await_partitions)


def stream_sizes(size: st.SearchStrategy[int] | None = None) -> st.SearchStrategy[StreamSize]:
    """Reports of streams: of their size, or of a growth."""
    return st.builds(StreamSize, st.sampled_from(_STREAMS), sizes() if size is None else size, st.booleans())


#: None, those of a run, of one that it started, and of one that a rerun started.
_FIRST: Final = NO_ANCESTORS.extend_by_job(_PROGRAMS[0], "job.1")
_ANCESTORS: Final = (
    NO_ANCESTORS,
    _FIRST,
    _FIRST.extend_by_job(_PROGRAMS[1], "job.2"),
    _FIRST.extend_by_job(_PROGRAMS[1], "job.2", 7),
)


def programs_reached() -> st.SearchStrategy[ProgramReached]:
    """Ends of runs, some of a run that another one started."""
    return st.builds(
        ProgramReached,
        program=st.sampled_from(_PROGRAMS),
        run_id=words(),
        outcome=st.sampled_from(Outcome),
        arguments=texts(),
        ended_at=st.none() | instants(),
        error=st.none() | st.text(_CHARACTERS, max_size=12),
        ancestors=st.sampled_from(_ANCESTORS),
    )


def customs() -> st.SearchStrategy[CustomHappened]:
    """Custom events."""
    return st.builds(CustomHappened, name=st.sampled_from(_NAMES), attributes=texts())


def facts_from_outside() -> st.SearchStrategy[Fact]:
    """Facts anyone may report: all but ticks."""
    return partitions_added() | partitions_awaiting() | stream_sizes() | programs_reached() | customs()


def ticks(generation: st.SearchStrategy[int] | None = None) -> st.SearchStrategy[Ticked]:
    """Ticks of the world's time leaves, and of none that exists."""
    known = st.sampled_from([leaf_id(leaf) for leaf in _TIMES])
    return st.builds(
        Ticked,
        schedule=st.just(SCHEDULE),
        generation=st.integers(0, 3) if generation is None else generation,
        leaf=known | st.just("cron:gone@UTC"),
        due_at=instants(),
        missed=st.lists(instants(), max_size=2).map(lambda found: tuple(sorted(found))),
    )


def facts() -> st.SearchStrategy[Fact]:
    """Facts of every kind."""
    return facts_from_outside() | ticks()


def events(fact: st.SearchStrategy[Fact] | None = None) -> st.SearchStrategy[Event]:
    """Events with envelopes of any kind."""
    named = words().filter(lambda text: not text.startswith("log:"))
    return st.builds(
        Event,
        id=named,
        source=words(),
        time=instants(),
        fact=facts() if fact is None else fact,
        traceparent=st.none() | contexts(),
    )


def contexts() -> st.SearchStrategy[str]:
    """Trace contexts as they are stored."""
    ids = st.integers(1, 3)
    return st.builds(
        lambda trace, span, on: str(TraceContext(f"{trace:032x}", f"{span:016x}", on)), ids, ids, st.booleans()
    )


def columns() -> Columns:
    """Values, attributes and arguments that a match of this world may ask for."""
    return st.fixed_dictionaries(
        {}, optional={"day": st.sampled_from(["7", "8", "17"]), "region": st.sampled_from("ab")}
    )


@cache
def matches() -> st.SearchStrategy[Match]:
    """Mostly those that accept anything."""
    wanted = st.builds(OneOf, st.frozensets(st.sampled_from(["7", "8", "a", "b"]), min_size=1)) | st.builds(
        Glob, st.sampled_from(["*", "?", "1*", "*7", "?7"])
    )
    some = st.dictionaries(st.sampled_from(["day", "region"]), wanted, min_size=1).map(Match.from_values)
    return st.just(ANYTHING) | st.just(ANYTHING) | some


@st.composite
def small_commits(draw: st.DrawFn, dataset: DatasetRef, values: Columns | None = None) -> PartitionsAdded:
    """Up to three partitions, some named, small. `values`: their columns."""
    known = st.none() | st.integers(0, 4)
    named = tuple(
        Partition(draw(st.sampled_from("pqrst")), found, draw(known), draw(known))
        for found in draw(st.lists(columns() if values is None else values, max_size=3))
    )
    return PartitionsAdded(dataset, named, draw(st.integers(max(1, len(named)), 3)))


@st.composite
def small_facts(draw: st.DrawFn) -> Fact:
    """Facts without ornament, in amounts about as large as `triggers` asks for: many logs of them satisfy."""
    kind = draw(st.sampled_from(["partitions", "stream", "program", "custom", "tick"]))
    match kind:
        case "partitions":
            return draw(small_commits(draw(st.sampled_from(DATASETS))))
        case "stream":
            return draw(stream_sizes(st.integers(0, 8)))
        case "program":
            return ProgramReached(
                draw(st.sampled_from(_PROGRAMS)), "run", draw(st.sampled_from(Outcome)), draw(columns())
            )
        case "custom":
            return CustomHappened(draw(st.sampled_from(_NAMES)), draw(columns()))
        case _:
            return draw(ticks(st.integers(1, 2)))


@st.composite
def facts_for(draw: st.DrawFn, leaf: Leaf, *, generation: int = 1, values: Columns | None = None) -> Fact:
    """Facts that one leaf listens to. `values`: columns of partitions, and attributes and arguments."""
    said = columns() if values is None else values
    match leaf:
        case Partitions(dataset=dataset) | Total(dataset=dataset):
            return draw(small_commits(dataset, said))
        case StreamGrowth(stream=stream):
            return StreamSize(stream, draw(st.integers(0, 8)), draw(st.booleans()))
        case ProgramStatus(program=program, outcomes=outcomes):
            return ProgramReached(program, "run", draw(st.sampled_from(sorted(outcomes))), draw(said))
        case CustomEvent(name=name):
            return CustomHappened(name, draw(said))
        case Cron() | Every() | At() | SinceLastRun():
            return Ticked(SCHEDULE, generation, leaf_id(leaf), datetime(2013, 1, 1, tzinfo=UTC))
        case _:
            assert_never(leaf)


@st.composite
def facts_heard(draw: st.DrawFn, trigger: Trigger, generation: int) -> Fact:
    """Facts that some leaf of a trigger listens to; now and then a tick of an older definition."""
    late = draw(st.sampled_from([0, 0, 0, 1]))
    return draw(facts_for(draw(st.sampled_from([*leaves(trigger)])), generation=max(0, generation - late)))


@st.composite
def events_for(
    draw: st.DrawFn, trigger: Trigger, *, values: Columns | None = None, max_size: int = 10
) -> list[EventDraft]:
    """Events that leaves of a trigger listen to, in any order, each with an id of its own. Ticks are not among them:
    time makes them. `values`: the columns of partitions, and the attributes and arguments, of which the trigger's
    matches accept some.
    """
    heard = [leaf for leaf in leaves(trigger) if not isinstance(leaf, TickingLeaf)]
    found = draw(st.lists(st.sampled_from(heard), max_size=max_size)) if heard else []
    return [
        EventDraft(fact=draw(facts_for(leaf, values=values)), id=f"e{place}", source="test")
        for place, leaf in enumerate(found)
    ]


@cache
def event_leaves() -> st.SearchStrategy[Leaf]:
    """Leaves that count events."""
    some = st.integers(1, 3)
    outcomes = st.frozensets(st.sampled_from(Outcome), min_size=1)
    return (
        st.builds(Partitions, st.sampled_from(DATASETS), st.integers(1, 5), matches(), st.booleans())
        | st.builds(
            Total, st.sampled_from(DATASETS), st.sampled_from(Measure), st.integers(1, 8), matches(), st.booleans()
        )
        | st.builds(StreamGrowth, st.sampled_from(_STREAMS), st.integers(1, 10))
        | st.builds(ProgramStatus, st.sampled_from(_PROGRAMS), outcomes, some, matches())
        | st.builds(CustomEvent, st.sampled_from(_NAMES), some, matches())
    )


@cache
def time_leaves() -> st.SearchStrategy[Leaf]:
    """Leaves that count ticks."""
    return st.sampled_from(_TIMES)


@cache
def triggers(max_leaves: int = 6) -> st.SearchStrategy[Trigger]:
    """Triggers of any shape: all leaves, equal ones too, nested composites, some with a single child."""
    leaf: st.SearchStrategy[Trigger] = event_leaves() | st.sampled_from(_TIMES)

    def compose(children: st.SearchStrategy[Trigger]) -> st.SearchStrategy[Trigger]:
        several = st.lists(children, min_size=1, max_size=3).map(tuple)
        counted = several.flatmap(lambda some: st.builds(AtLeast, st.integers(1, len(some)), st.just(some)))
        return st.builds(AllOf, several, st.booleans()) | st.builds(AnyOf, several) | counted

    return st.recursive(leaf, compose, max_leaves=max_leaves)


def consumptions() -> st.SearchStrategy[Consumption]:
    """What a satisfaction uses up."""
    return st.sampled_from(Consumption)
