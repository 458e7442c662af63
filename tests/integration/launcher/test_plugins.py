"""Constraints from outside: asked beside the launcher, heard for a short time, and never in its way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from streamsched.domain.constraints.plugin import MOST_PAST_RUNS, PlugIn, Question, canonical
from streamsched.domain.decisions.admission import Satisfied, WaitFor
from streamsched.domain.errors import InvalidError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.overlap import Overlap
from streamsched.launcher.loop import Launcher
from streamsched.launcher.plugin_evaluator import PluginEvaluator
from streamsched.launcher.plugins import Answer, Maker, check
from streamsched.launcher.why import explain_job

from .conftest import MINUTE, World, schedule

pytestmark = pytest.mark.postgres

EXAMPLE = Path(__file__).parents[3] / "examples" / "quiet_hours"
ASKED = schedule("asked", constraints=(PlugIn("ours"),), overlap=Overlap.QUEUE)


async def ruled(world: World, answer: Any, *, wait: bool = True) -> str:
    """One job, whose plug-in answers so: the state it comes to."""
    known = schedule("asked", constraints=(PlugIn("ours", wait=wait),), overlap=Overlap.QUEUE)
    await world.define(known)
    await world.satisfy(world.ready(known, 1))
    await asked(world, {"ours": lambda: lambda _: answer})
    return (await world.states())["asked.1.1"]


async def asked(world: World, known: Mapping[str, Callable[[], Maker]], patience: float = 60) -> None:
    plugins = PluginEvaluator(known, world.decisions, world.clock, timeout=patience)
    launcher = Launcher(world.decisions, world.run_monitor, world.notifier, world.clock, plugins)
    await launcher.run_once()
    await plugins.wait_until_settled()
    await launcher.run_once()


async def summary(world: World) -> str:
    return (await explain_job("default.app.asked.1.1", jobs=world.jobs, clock=world.clock)).summary


async def test_the_example_says_until_when_and_then_lets_start(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from streamsched_quiet_hours.constraint import make

    quiet = tmp_path / "quiet"
    quiet.write_text(f"{(world.clock.now() + MINUTE).isoformat()}\nthe auditors are here")
    known = schedule("asked", constraints=(PlugIn("quiet-hours", canonical({"file": str(quiet)})),))
    check(known, "$", {"quiet-hours": lambda: make})
    await world.define(known)
    await world.satisfy(world.ready(known, 1))
    await asked(world, {"quiet-hours": lambda: make})

    assert await summary(world) == "it waits: quiet until 2026-03-01T12:01:00+00:00: the auditors are here"
    assert await world.decisions.next_due_at() == world.clock.now() + MINUTE

    world.clock.advance(MINUTE)
    await asked(world, {"quiet-hours": lambda: make})
    assert await world.states() == {"asked.1.1": "PENDING_LAUNCH"}


async def test_a_plug_in_is_given_the_job_and_its_program(world: World) -> None:
    heard: list[Question] = []

    def make(config: Mapping[str, Any]) -> Answer:
        return lambda question: heard.append(question) or Satisfied("fine")

    await world.define(ASKED)
    await world.satisfy(world.ready(ASKED, 1))
    await asked(world, {"ours": lambda: make})

    [question] = heard
    assert (question.job, question.schedule, question.program) == ("default.app.asked.1.1", ASKED.ref, ASKED.program)
    assert (question.now, question.satisfied_at, question.active_runs) == (world.clock.now(),) * 2 + ((),)
    assert [event.id for each in question.contributions for event in each.events] == [
        event.id for each in world.ready(ASKED, 1).contributions for event in each.events
    ]
    assert question.history == ()
    assert await world.states() == {"asked.1.1": "PENDING_LAUNCH"}


async def test_a_plug_in_is_given_what_runs_and_what_ran(world: World) -> None:
    """As CDAP's `ConstraintCheckContext`: running instances, history, and the triggering events."""
    heard: list[Question] = []
    known = {"ours": lambda: lambda _: lambda question: heard.append(question) or Satisfied("fine")}
    await world.define(ASKED)
    for n in range(151):
        at, state = world.clock.now() - (n + 1) * MINUTE, RunState.FAILED if n else RunState.RUNNING
        await world.add_run(f"default.app.old.r{n}", program=str(ASKED.program), at=at, state=state)

    await world.satisfy(world.ready(ASKED, 1))
    await asked(world, known)

    [question] = heard
    assert question.active_runs == ("default.app.old.r0",)
    assert len(question.history) == MOST_PAST_RUNS
    assert [each.id for each in question.history[:2]] == ["default.app.old.r0", "default.app.old.r1"]
    assert [each.state for each in question.history[:2]] == [RunState.RUNNING, RunState.FAILED]
    assert question.history[0].ended_at is None


async def test_what_it_says_is_done(world: World) -> None:
    assert await ruled(world, lambda _: WaitFor(("quota",), "quota is used up"), wait=False) == "ABORTED"


async def test_one_that_fails_or_talks_nonsense_is_waited_for_and_asked_again(world: World) -> None:
    def fail(question: Question) -> None:
        raise RuntimeError("no network")

    assert await ruled(world, fail, wait=False) == "PENDING_CONSTRAINT"
    assert await summary(world) == "it waits: plug-in ours failed: RuntimeError: no network"

    world.clock.advance(timedelta(seconds=10))
    await asked(world, {"ours": lambda: lambda _: lambda _: "yes"})  # type: ignore[reportArgumentType]  # wrong on purpose
    assert await summary(world) == "it waits: plug-in ours answered with a str, which is no verdict"

    world.clock.advance(timedelta(seconds=10))
    await asked(world, {})
    assert (await summary(world)).startswith("it waits: plug-in ours cannot be asked: $.name: no plug-in 'ours' is")


async def test_one_that_never_comes_back_delays_no_other(world: World) -> None:
    plain, never = schedule("plain"), threading.Event()
    await world.define(ASKED, plain)
    await world.satisfy(world.ready(ASKED, 1), world.ready(plain, 1))
    try:
        await asked(world, {"ours": lambda: lambda _: lambda _: Satisfied(f"{never.wait(120)}")}, patience=0.05)
        assert await summary(world) == "it waits: plug-in ours did not answer within 0.05 s"
        assert (await world.states())["plain.1.1"] == "PENDING_LAUNCH"
    finally:
        never.set()


def test_a_wrong_configuration_is_refused_with_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from streamsched_quiet_hours.constraint import make

    known = schedule("asked", constraints=(PlugIn("quiet-hours", '{"file":7}'),))
    with pytest.raises(InvalidError) as refused:
        check(known, "$.schedules.asked", {"quiet-hours": lambda: make})
    assert str(refused.value) == "$.schedules.asked.constraints[0].config.file: must be the path of a file but is 7"
    with pytest.raises(InvalidError, match=r"constraints\[0\].name: no plug-in 'quiet-hours' is installed here"):
        check(known, "$", {})
