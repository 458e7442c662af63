"""Joins per run of an ancestor, as one schedule's fold sees them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from streamsched.codec.events import native
from streamsched.codec.records import cell as cell_codec
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.events.ancestors import MOST_ANCESTORS, NO_ANCESTORS, Ancestors, job_digest, unite_ancestors
from streamsched.domain.events.event import CustomHappened, Event, Outcome, ProgramReached
from streamsched.domain.fold.effect import Refuse
from streamsched.domain.fold.plan import build_plan
from streamsched.domain.names import EventName, ProgramRef
from streamsched.domain.signals.signal import Occurred, Put
from streamsched.domain.signals.verdict import JudgedEvent, Verdict
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.removal import awaited_programs, remove_programs
from streamsched.domain.triggers.trigger import AllOf, CustomEvent, Per, ProgramStatus
from tests.support.engine import Engine
from tests.support.fork_join import JOIN, START, TRIGGER, A, B, C, D


def opened(trigger: Per = TRIGGER) -> Engine:
    engine = Engine(JOIN)
    engine.tell(START, Put(JOIN, 1, True, trigger))
    return engine


def ended(program: ProgramRef, run: str, ancestors: Ancestors = NO_ANCESTORS) -> Occurred:
    fact = ProgramReached(program, run, Outcome.SUCCEEDED, ancestors=ancestors)
    return Occurred(Event(run, "test", START, fact))


def of(*jobs: str, program: ProgramRef = A) -> Ancestors:
    return unite_ancestors(NO_ANCESTORS.extend_by_job(program, job) for job in jobs)


def verdict(engine: Engine, signal: Occurred) -> JudgedEvent:
    found = engine.tell(START + timedelta(minutes=1), signal).verdict
    assert found is not None
    return found


def test_the_end_of_a_run_by_hand_counts_under_no_key_and_says_why() -> None:
    engine = opened()
    assert verdict(engine, ended(B, "b.manual-1.r1", NO_ANCESTORS.extend_by_job(B, "b.manual-1.r1"))) == JudgedEvent(
        Verdict.UNMATCHED,
        why="it descends from no run of default.shop.a: it was started by hand, or by something else",
    )
    assert verdict(engine, ended(B, "of another emitter")).verdict is Verdict.UNMATCHED
    assert not engine.cells


def test_an_end_with_too_many_ancestors_is_refused_and_counted_as_that() -> None:
    engine = opened()
    many = of(*(f"a.1.{number}" for number in range(MOST_ANCESTORS + 1))).extend_by_job(B, "b.1.1")
    found = engine.tell(START, ended(B, "b.1.1.r1", many))
    why = "it descends from too many runs of default.shop.a: at most 1000 ancestors are kept"
    assert (found.verdict, found.effects) == (JudgedEvent(Verdict.REFUSED, why=why), (Refuse(why),))
    assert engine.state is not None
    assert (engine.state.refused, engine.cells) == (1, {})

    exact = of(*(f"a.1.{number}" for number in range(MOST_ANCESTORS - 1))).extend_by_job(B, "b.1.1")
    assert verdict(engine, ended(B, "b.1.2.r1", exact)).verdict is Verdict.COUNTED
    assert len(engine.cells) == MOST_ANCESTORS - 1


def test_too_many_of_one_program_leave_the_keys_of_another() -> None:
    """A thousand files start `a` a thousand times, and one `x` once: fork and join after `x` go on."""
    many = of(*(f"a.1.{number}" for number in range(2000))).extend_by_job(D, "d.1.1")
    engine = opened(Per(ProgramStatus(B) & ProgramStatus(C), (), run_of=D))
    assert verdict(engine, ended(B, "b.1.1.r1", many.extend_by_job(B, "b.1.1"))).cells == (job_digest("d.1.1"),)


def test_a_job_of_a_key_descends_from_that_run_only() -> None:
    """So a join further down does not count it for the other runs that its events came from."""
    engine = opened()
    verdict(engine, ended(B, "b.1.1.r1", of("a.1.1", "a.1.2").extend_by_job(B, "b.1.1")))
    verdict(engine, ended(C, "c.1.1.r1", of("a.1.1").extend_by_job(C, "c.1.1")))
    ((_, job),) = engine.jobs
    facts = [event.fact for part in job.contributions for event in part.events]
    assert [fact.known_ancestors.jobs_of(A) for fact in facts if isinstance(fact, ProgramReached)] == [
        (job_digest("a.1.1"),),
        (job_digest("a.1.1"),),
    ]
    assert list(engine.cells) == [job_digest("a.1.2")]


def test_a_cell_keeps_the_ancestors_of_its_events() -> None:
    engine = opened()
    verdict(engine, ended(B, "b.1.1.r1", of("a.1.1").extend_by_job(B, "b.1.1", 7)))
    ((key, cell),) = engine.cells.items()
    plan = build_plan(TRIGGER)
    assert cell_codec.from_json(native.to_plain(cell_codec.to_json(plan, cell)), "$", plan, key=key) == cell


def test_the_end_of_the_ancestor_itself_counts_under_its_own_job() -> None:
    engine = opened(Per(ProgramStatus(A) & ProgramStatus(B), (), run_of=A))
    verdict(engine, ended(A, "a.1.1.r1", NO_ANCESTORS.extend_by_job(A, "a.1.1")))
    verdict(engine, ended(B, "b.1.1.r1", of("a.1.1").extend_by_job(B, "b.1.1")))
    assert [job.key for _, job in engine.jobs] == [job_digest("a.1.1")]


def test_a_chain_that_returns_to_a_program_begins_anew_with_each_of_its_runs() -> None:
    ancestors = NO_ANCESTORS
    for number in range(3000):
        ancestors = ancestors.extend_by_job(A, f"a.1.{number}").extend_by_job(B, f"b.1.{number}")
    assert ancestors.jobs_of(A) == (job_digest("a.1.2999"),)


def test_what_is_no_end_of_a_program_cannot_be_joined_per_run() -> None:
    event = CustomEvent(EventName("default", "go"))
    with pytest.raises(InvalidDefinitionError, match=r"by runs of default.shop.a, but .* from no run"):
        build_plan(Per(AllOf((ProgramStatus(B), event)), (), run_of=A))
    with pytest.raises(InvalidDefinitionError, match="by runs of different programs, which can never be equal"):
        build_plan(AllOf((Per(ProgramStatus(B), (), run_of=A), Per(ProgramStatus(C), (), run_of=D))))
    with pytest.raises(InvalidDefinitionError, match="cannot be together with `per_run_of`"):
        Per(ProgramStatus(B), ("day",), run_of=A)
    with pytest.raises(InvalidDefinitionError, match="cannot be together with `per_run_of`"):
        Per(ProgramStatus(B), (), Grain.DAY, run_of=A)


def test_without_the_ancestor_a_join_can_never_hold_again() -> None:
    assert awaited_programs(TRIGGER) == {A, B, C}
    assert remove_programs(TRIGGER, {A}) is None
    assert remove_programs(TRIGGER, {D}) is TRIGGER
    assert remove_programs(TRIGGER, {C}) is None


def test_events_that_are_no_ends_have_no_ancestors() -> None:
    engine = opened()
    happened = Occurred(Event("e", "test", START, CustomHappened(EventName("default", "go"))))
    assert verdict(engine, happened) == JudgedEvent(Verdict.UNMATCHED)


def test_what_a_rerun_of_the_ancestor_changes_is_in_the_verdict() -> None:
    engine = opened()
    again = NO_ANCESTORS.extend_by_job(A, "a.1.1", 7)
    key, other = job_digest("a.1.1"), job_digest("a.1.2")
    verdict(engine, ended(B, "b.1.1.r1", of("a.1.1").extend_by_job(B, "b.1.1")))
    found = verdict(engine, ended(B, "b.1.2.r1", again.extend_by_job(B, "b.1.2")))
    assert (found.cells, found.why) == (
        (key,),
        "took the place of what earlier runs of the rerun job led to, under 1 keys",
    )
    late = verdict(engine, ended(C, "c.1.1.r1", of("a.1.1", "a.1.2").extend_by_job(C, "c.1.1")))
    why = f"run {key}, from which it descends, was run again, and what that led to counts"
    assert (late.cells, late.why) == ((other,), why)
    alone = verdict(engine, ended(C, "c.1.2.r1", of("a.1.1").extend_by_job(C, "c.1.2")))
    assert alone == JudgedEvent(Verdict.UNMATCHED, why=why)
    assert engine.state is not None
    assert (len(engine.jobs), engine.state.lost) == (0, 0)
