"""Hypothesis strategies for events, triggers and signals of a small world, where what happens often meets who listens.

Everything drawn is well formed: every codec takes it, every fold may see it. Needs Hypothesis, which is no dependency
of the product.
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
from streamsched.domain.events.event_list import EventList
from streamsched.domain.events.match import ANYTHING, Glob, Match, OneOf
from streamsched.domain.events.trace_context import TraceContext
from streamsched.domain.fold.accumulation import LIMIT, Accumulation
from streamsched.domain.fold.fold import TriggerState
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.jobs.submission import Rerun, Submission, submitted_job_id
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef
from streamsched.domain.signals.signal import IN_TIME, Drop, Occurred, Put, Signal, Subscribe, Unsubscribe
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
from tests.support.states import state_of

SCHEDULE: Final = ScheduleRef("default", "app", "schedule")
_DATASETS: Final = (DatasetRef("default", "flights"), DatasetRef("default", "weather.hourly"))
_STREAMS: Final = (StreamRef("default", "clicks"), StreamRef("other", "clicks"))
_PROGRAMS: Final = (ProgramRef("default", "app", "load"), ProgramRef("default", "app", "join"))
_NAMES: Final = (EventName("default", "approved"), EventName("default", "com.example.push"))
_CRONS: Final = (Cron("0 4 * * *"), Cron("0 4 * * *", "Europe/Berlin"))
_EVERY: Final = (Every(timedelta(minutes=5)), Every(timedelta(hours=1), datetime(2013, 1, 1, tzinfo=UTC)))
_AT: Final = (At(datetime(2013, 1, 7, 4, tzinfo=UTC)),)
_SINCE: Final = (SinceLastRun(timedelta(hours=4)),)
_TIMES: Final[tuple[TickingLeaf, ...]] = (*_CRONS, *_EVERY, *_AT, *_SINCE)


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
    known = st.none() | sizes()
    return st.builds(Partition, key=words(), values=texts(), bytes=known, rows=known)


@st.composite
def partitions_added(draw: st.DrawFn) -> PartitionsAdded:
    named = tuple(draw(st.lists(partitions(), max_size=3)))
    count = draw(st.integers(max(1, len(named)), len(named) + 3))
    run = draw(st.sampled_from(["", "", "sales.shop.daily.1.1.r1"]))
    return PartitionsAdded(draw(st.sampled_from(_DATASETS)), named, count, run)


def partitions_awaiting() -> st.SearchStrategy[PartitionsAdded]:
    """Commits whose statistics follow."""

    def awaiting(fact: PartitionsAdded) -> PartitionsAdded:
        named = tuple(each._replace(bytes=None, rows=None) for each in fact.partitions)
        return replace(fact, partitions=named, statistics_follow=True)

    return partitions_added().map(awaiting)


def stream_sizes(size: st.SearchStrategy[int] | None = None) -> st.SearchStrategy[StreamSize]:
    return st.builds(StreamSize, st.sampled_from(_STREAMS), sizes() if size is None else size, st.booleans())


#: None, those of a run, of one that it started, and of one that a rerun started.
_FIRST: Final = NO_ANCESTORS.then(_PROGRAMS[0], "job.1")
_ANCESTORS: Final = (NO_ANCESTORS, _FIRST, _FIRST.then(_PROGRAMS[1], "job.2"), _FIRST.then(_PROGRAMS[1], "job.2", 7))


def programs_reached() -> st.SearchStrategy[ProgramReached]:
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


def columns() -> st.SearchStrategy[dict[str, str]]:
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
    some = st.dictionaries(st.sampled_from(["day", "region"]), wanted, min_size=1).map(Match.of)
    return st.just(ANYTHING) | st.just(ANYTHING) | some


@st.composite
def small_commits(draw: st.DrawFn, dataset: DatasetRef) -> PartitionsAdded:
    """Up to three partitions, some named, small."""
    known = st.none() | st.integers(0, 4)
    named = tuple(
        Partition(draw(st.sampled_from("pqrst")), values, draw(known), draw(known))
        for values in draw(st.lists(columns(), max_size=3))
    )
    return PartitionsAdded(dataset, named, draw(st.integers(max(1, len(named)), 3)))


@st.composite
def small_facts(draw: st.DrawFn) -> Fact:
    """Facts without ornament, in amounts about as large as `triggers` asks for: many logs of them satisfy."""
    kind = draw(st.sampled_from(["partitions", "stream", "program", "custom", "tick"]))
    match kind:
        case "partitions":
            return draw(small_commits(draw(st.sampled_from(_DATASETS))))
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
def facts_for(draw: st.DrawFn, leaf: Leaf, *, generation: int = 1) -> Fact:
    """Facts that one leaf listens to."""
    match leaf:
        case Partitions(dataset=dataset) | Total(dataset=dataset):
            return draw(small_commits(dataset))
        case StreamGrowth(stream=stream):
            return StreamSize(stream, draw(st.integers(0, 8)), draw(st.booleans()))
        case ProgramStatus(program=program, outcomes=outcomes):
            return ProgramReached(program, "run", draw(st.sampled_from(sorted(outcomes))), draw(columns()))
        case CustomEvent(name=name):
            return CustomHappened(name, draw(columns()))
        case Cron() | Every() | At() | SinceLastRun():
            return Ticked(SCHEDULE, generation, leaf_id(leaf), datetime(2013, 1, 1, tzinfo=UTC))
        case _:
            assert_never(leaf)


@st.composite
def facts_heard(draw: st.DrawFn, trigger: Trigger, generation: int) -> Fact:
    """Facts that some leaf of a trigger listens to; now and then a tick of an older definition."""
    late = draw(st.sampled_from([0, 0, 0, 1]))
    return draw(facts_for(draw(st.sampled_from([*leaves(trigger)])), generation=max(0, generation - late)))


@cache
def event_leaves() -> st.SearchStrategy[Leaf]:
    some = st.integers(1, 3)
    outcomes = st.frozensets(st.sampled_from(Outcome), min_size=1)
    return (
        st.builds(Partitions, st.sampled_from(_DATASETS), st.integers(1, 5), matches(), st.booleans())
        | st.builds(
            Total, st.sampled_from(_DATASETS), st.sampled_from(Measure), st.integers(1, 8), matches(), st.booleans()
        )
        | st.builds(StreamGrowth, st.sampled_from(_STREAMS), st.integers(1, 10))
        | st.builds(ProgramStatus, st.sampled_from(_PROGRAMS), outcomes, some, matches())
        | st.builds(CustomEvent, st.sampled_from(_NAMES), some, matches())
    )


@cache
def time_leaves() -> st.SearchStrategy[Leaf]:
    return st.sampled_from(_TIMES)


@cache
def triggers(max_leaves: int = 6) -> st.SearchStrategy[Trigger]:
    """Triggers of any shape: all leaves, equal ones too, nested composites, some with a single child."""
    leaf: st.SearchStrategy[Trigger] = event_leaves() | st.sampled_from(_TIMES)

    def composed(children: st.SearchStrategy[Trigger]) -> st.SearchStrategy[Trigger]:
        several = st.lists(children, min_size=1, max_size=3).map(tuple)
        counted = several.flatmap(lambda some: st.builds(AtLeast, st.integers(1, len(some)), st.just(some)))
        return st.builds(AllOf, several, st.booleans()) | st.builds(AnyOf, several) | counted

    return st.recursive(leaf, composed, max_leaves=max_leaves)


def consumptions() -> st.SearchStrategy[Consumption]:
    return st.sampled_from(Consumption)


def generations() -> st.SearchStrategy[int]:
    return st.integers(0, 9)


def signals() -> st.SearchStrategy[Signal]:
    """Any signal, of an event key's home or of a schedule's."""
    schedule, generation = st.just(SCHEDULE), generations()
    keys = st.sampled_from([f"partition:{dataset}" for dataset in _DATASETS])
    delays = st.just(IN_TIME) | st.integers(1, 10**9).map(lambda most: timedelta(milliseconds=most))
    return (
        st.builds(Occurred, events(), delays)
        | st.builds(Put, schedule, generation, st.booleans(), triggers(), consumptions(), started=generations())
        | st.builds(Drop, schedule, generation)
        | st.builds(Subscribe, keys, schedule, generation)
        | st.builds(Unsubscribe, keys, schedule, generation)
    )


@st.composite
def logs(draw: st.DrawFn, *, trigger: Trigger | None = None, control: bool = True, max_size: int = 30) -> list[Signal]:
    """What a schedule's home gets to see, in order: a definition first, then events with ids `e0`, `e1`, ….

    Most events are what the latest definition listens to. With `control`, definitions change in between: newer,
    repeated and older ones, disabled ones, drops.
    """
    latest = Put(SCHEDULE, 1, True, draw(triggers()) if trigger is None else trigger, draw(consumptions()))
    log: list[Signal] = [latest]
    kinds = ["heard"] * 12 + ["any"] * 3 + (["put", "drop"] if control else [])
    size = draw(st.integers(0, max_size))
    for place, kind in enumerate(draw(st.lists(st.sampled_from(kinds), min_size=size, max_size=size))):
        match kind:
            case "put":
                enabled = draw(st.sampled_from([True, True, False]))
                put = Put(SCHEDULE, draw(st.integers(0, 4)), enabled, draw(triggers()), draw(consumptions()))
                latest = put if put.generation > latest.generation else latest
                log.append(put)
            case "drop":
                log.append(Drop(SCHEDULE, draw(st.integers(0, 4))))
            case _:
                fact = draw(facts_heard(latest.trigger, latest.generation) if kind == "heard" else small_facts())
                log.append(Occurred(Event(f"e{place}", "test", datetime(2013, 1, 1, tzinfo=UTC), fact)))
    return log


@st.composite
def ready_jobs(draw: st.DrawFn) -> ReadyJob:
    """Jobs whose contributions share events, as those of one satisfaction do."""
    known = draw(st.lists(events(), min_size=1, max_size=4))
    some = st.lists(st.sampled_from(known), max_size=4).map(tuple)
    contributions = st.lists(st.builds(Contribution, words(), sizes(), some), max_size=3)
    return ReadyJob(
        SCHEDULE,
        draw(generations()),
        draw(st.integers(1, 99)),
        draw(instants()),
        tuple(draw(contributions)),
        traceparent=draw(st.none() | contexts()),
    )


def submissions() -> st.SearchStrategy[Submission]:
    """What a person asked for."""
    texts = st.dictionaries(words(), words(), max_size=3)
    job = words().map(lambda key: submitted_job_id(SCHEDULE, key))
    reruns = st.builds(Rerun, words(), words(), instants(), st.booleans())
    return st.builds(
        Submission,
        job,
        words(),
        texts,
        texts,
        st.none() | reruns,
        st.booleans(),
        st.none() | words(),
        st.none() | instants(),
    )


@st.composite
def submitted_jobs(draw: st.DrawFn) -> ReadyJob:
    """Submissions to a schedule or a program, some with coalesced satisfactions."""
    job, sequence = draw(ready_jobs()), draw(st.integers(0, 99))
    submitted = replace(job, sequence=sequence, submission=draw(submissions()), key=draw(st.just("") | words()))
    return draw(st.sampled_from([submitted, replace(submitted, schedule=None, generation=0)]))


@st.composite
def trigger_states(draw: st.DrawFn) -> TriggerState:
    """States in any condition a codec may meet, reachable or not."""
    trigger = draw(triggers())
    known = draw(st.lists(events(), min_size=1, max_size=4))
    some = st.lists(st.sampled_from(known), max_size=4).map(EventList)
    names = sorted({leaf_id(leaf) for leaf in leaves(trigger)})
    held = st.dictionaries(st.sampled_from(names), st.builds(Accumulation, sizes(), st.none() | sizes(), some))
    generation, enabled, sequence = draw(generations()), draw(st.booleans()), draw(generations())
    return state_of(
        SCHEDULE,
        trigger,
        draw(held),
        generation=generation,
        enabled=enabled,
        sequence=sequence,
        consumption=draw(consumptions()),
    )
