"""A join per run starts what a naive model of fork and join starts, whenever wake-ups come."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.events import ancestors as ancestors_codec
from streamsched.codec.events import native
from streamsched.domain.events.ancestors import (
    MOST_ANCESTORS,
    NO_ANCESTORS,
    OTHERS,
    Ancestors,
    job_digest,
    program_digest,
    unite_ancestors,
)
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import EventName, ProgramRef
from streamsched.domain.triggers.run_joins import ProgramChains, run_join
from streamsched.domain.triggers.trigger import AllOf, AnyOf, CustomEvent, ProgramStatus, run_of
from streamsched.testing.examples import examples
from tests.support.engine import reported
from tests.support.fork_join import JOIN, Fork, Step, job_of_a, steps


def in_order(started: Iterable[tuple[str, frozenset[str]]]) -> dict[str, list[frozenset[str]]]:
    """Key → the events of each job, in order. Several keys may be complete with one event, in any order."""
    found: dict[str, list[frozenset[str]]] = {}
    for key, events in started:
        found.setdefault(key, []).append(events)
    return found


def events_of(job: ReadyJob) -> frozenset[str]:
    return frozenset(event.id for part in job.contributions for event in part.events)


@examples(400)
@given(steps())
def test_a_join_per_run_starts_what_belongs_together(wanted: list[Step]) -> None:
    model = Fork()
    model.follow(wanted)
    end = model.at + timedelta(hours=5)
    model.end(end)

    for prompt in (True, False):
        engine = reported(model.log, JOIN, end=end, prompt=prompt)
        assert in_order((job.key, events_of(job)) for _, job in engine.jobs) == in_order(
            (job_digest(job_of_a(key)), events) for key, events in model.started
        )
        assert set(engine.cells) == {job_digest(job_of_a(key)) for key in model.open}
        assert engine.state is not None
        assert (engine.state.lost, engine.state.refused) == (model.lost, 0)


NAMES = [ProgramRef("default", "shop", f"p{number}") for number in range(6)]
lineages = st.recursive(
    st.just(NO_ANCESTORS),
    lambda inner: st.builds(
        lambda before, program, job, rerun: unite_ancestors(before).extend_by_job(program, f"{program}.{job}", rerun),
        st.lists(inner, max_size=3),
        st.sampled_from(NAMES),
        st.integers(0, 9),
        st.sampled_from([0, 0, 5, 7]),
    ),
)


@examples(200)
@given(st.lists(lineages, max_size=4))
def test_ancestors_are_united_in_any_order_and_survive_their_codec(some: list[Ancestors]) -> None:
    found = unite_ancestors(some)

    assert unite_ancestors(reversed(some)) == found == unite_ancestors([found, *some])
    assert all(found.jobs_of(each) for program in NAMES for one in some for each in [program] if one.jobs_of(program))
    assert ancestors_codec.from_json(native.to_plain(ancestors_codec.to_json(found)), "$") == found


@examples(50)
@given(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 700), max_size=6), st.integers(0, 1500))
def test_there_are_never_too_many_and_what_was_left_out_is_known(jobs: dict[ProgramRef, int], programs: int) -> None:
    some = [
        NO_ANCESTORS.extend_by_job(program, f"{program}.{number}")
        for program, count in jobs.items()
        for number in range(count)
    ]
    some += [NO_ANCESTORS.extend_by_job(ProgramRef("default", "many", f"p{number}"), "1") for number in range(programs)]
    found = unite_ancestors(some)

    assert sum(max(1, len(named)) for named in found.jobs.values()) <= MOST_ANCESTORS
    for program, count in jobs.items():
        named = found.jobs_of(program)
        assert named is None or len(named) == count
    if sum(jobs.values()) + programs <= MOST_ANCESTORS:
        assert OTHERS not in found.jobs
        assert all(found.jobs.values())
    child = found.extend_by_job(NAMES[0], "child")
    assert child.jobs_of(NAMES[0]) == (job_digest("child"),)
    assert sum(max(1, len(named)) for named in child.jobs.values()) <= MOST_ANCESTORS
    assert ancestors_codec.from_json(native.to_plain(ancestors_codec.to_json(child)), "$") == child
    assert program_digest(NAMES[0]) in child.jobs


def acyclic(draw: st.DrawFn) -> dict[ProgramRef, list[AllOf | AnyOf]]:
    """Programs that start only later ones, in one or two ways each."""
    started = {}
    for place, program in enumerate(NAMES):
        below = [ProgramStatus(each) for each in NAMES[:place]] + [CustomEvent(EventName("default", "go"))]
        some = st.lists(st.sampled_from(below), min_size=1, max_size=3, unique=True).map(tuple)
        started[program] = draw(st.lists(st.builds(AllOf, some) | st.builds(AnyOf, some), max_size=2))
    return started


@examples(300)
@given(st.composite(acyclic)(), st.lists(st.sampled_from(NAMES), min_size=2, max_size=3, unique=True))
def test_the_ancestor_is_one_of_every_run_and_the_nearest(
    started: dict[ProgramRef, list[AllOf | AnyOf]], joined: list[ProgramRef]
) -> None:
    """Every way in which a job of a program can come about is listed: the sets of programs that it descends from."""

    def ways(program: ProgramRef) -> list[frozenset[ProgramRef]]:
        found = [] if started[program] else [frozenset({program})]
        for trigger in started[program]:
            parts = [
                ways(leaf.program) if isinstance(leaf, ProgramStatus) else [frozenset()] for leaf in trigger.triggers
            ]
            if isinstance(trigger, AnyOf):
                found += [way | {program} for part in parts for way in part]
            else:
                together: list[frozenset[ProgramRef]] = [frozenset({program})]
                for part in parts:
                    together = list({one | other for one in together for other in part})
                found += together
        return list(set(found))

    always = {program: frozenset.intersection(*ways(program)) for program in NAMES}
    common = frozenset.intersection(*(always[program] for program in joined))
    nearest = [each for each in common if common <= always[each]]
    trigger = AllOf(tuple(map(ProgramStatus, joined)))

    found = run_join(trigger, ProgramChains({**started, ProgramRef("default", "shop", "d"): [trigger]}), "default")

    assert found is not None
    assert run_of(found.trigger) == (nearest[0] if nearest else None)
