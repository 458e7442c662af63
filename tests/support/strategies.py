"""Hypothesis strategies for what goes through the log, and for states, of the small world of
`streamsched.testing.strategies`.

Everything drawn is well formed: every codec takes it, every fold may see it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from streamsched.domain.events.event import Event
from streamsched.domain.events.event_list import EventList
from streamsched.domain.fold.accumulation import Accumulation
from streamsched.domain.fold.fold import TriggerState
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.jobs.submission import Rerun, Submission, submitted_job_id
from streamsched.domain.signals.signal import IN_TIME, Drop, Occurred, Put, Signal, Subscribe, Unsubscribe
from streamsched.domain.triggers.trigger import Trigger, leaf_id, leaves
from streamsched.testing.strategies import (
    DATASETS,
    SCHEDULE,
    consumptions,
    contexts,
    events,
    facts_heard,
    instants,
    sizes,
    small_facts,
    triggers,
    words,
)
from tests.support.states import state_of


def generations() -> st.SearchStrategy[int]:
    return st.integers(0, 9)


def signals() -> st.SearchStrategy[Signal]:
    """Any signal, of an event key's home or of a schedule's."""
    schedule, generation = st.just(SCHEDULE), generations()
    keys = st.sampled_from([f"partition:{dataset}" for dataset in DATASETS])
    delays = st.just(IN_TIME) | st.integers(1, 10**9).map(lambda most: timedelta(milliseconds=most))
    return (
        st.builds(Occurred, events(), delays, logged_ms=st.just(0) | st.integers(1, 10**14))
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
