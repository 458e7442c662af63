"""`streamsched event why` against a running `streamsched dev`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.dev_process import CommandOutput, DevProcess

pytestmark = pytest.mark.postgres


def why(running: DevProcess, event: str, *wanted: str) -> CommandOutput:
    """The answer, once the verdicts of the log have all come here and it says what is wanted."""

    def answer() -> CommandOutput | None:
        said = running.run("event", "why", event)
        return said if "on their way" not in said.out and all(text in said.out for text in wanted) else None

    return running.until(answer)


def emit(running: DevProcess, dataset: str, event: str, *keys: str) -> None:
    said = running.run("event", "emit", "partitions", dataset, *keys, "--id", event)
    assert said.code == 0, said.err
    assert f"streamsched event why {event}" in said.out


def test_a_counted_event_leads_to_its_job_and_run(running: DevProcess) -> None:
    emit(running, "flights", "f1", "day=1")
    progress = "no job consumed it yet: 1 of 2 (2 new partitions of default.flights); 0 of 1"  # copied after verdicts
    waiting = why(running, "f1", progress)
    assert "counted in default.demo.two (generation 1) towards 2 new partitions of default.flights" in waiting.out

    emit(running, "flights", "f2", "day=2")
    emit(running, "weather", "w1", "day=1")

    said = why(running, "f1", "LAUNCHED")
    assert "job default.demo.two.1.1 consumed it (LAUNCHED)" in said.out
    assert "run default.demo.two.1.1.r1" in said.out

    def settled() -> Any:  # the run's own events come after the job's
        found = running.run("event", "why", "f1", "-o", "json").json
        return found if found["behind"] == 0 else None

    assert running.until(settled)["verdicts"][0]["job"]["runs"] == ["default.demo.two.1.1.r1"]
    running.until(lambda: "events so far: 3 counted" in running.run("schedule", "show", "demo.two").out)


def test_a_repeat_and_an_unheard_event_say_so(running: DevProcess) -> None:
    emit(running, "nowhere", "r1", "day=2")
    emit(running, "nowhere", "r1", "day=2")
    said = why(running, "r1", "a duplicate")
    assert "counted" in said.out
    assert "seen first at" in said.out

    emit(running, "misspelt", "m1", "day=1")
    said = why(running, "m1", "no schedule listened to partition:default.misspelt")
    assert "is the name right?" in said.out


def test_a_disabled_schedule_that_would_have_listened_is_named(running: DevProcess) -> None:
    assert running.run("schedule", "disable", "demo.never").code == 0
    emit(running, "nowhere", "d1", "day=1")

    why(running, "d1", "default.demo.never would, but it is disabled since")

    assert running.run("schedule", "enable", "demo.never").code == 0
    why(running, "d1", "default.demo.never listens to it now")


def test_an_event_that_was_never_seen_is_3_and_says_what_that_may_mean(running: DevProcess) -> None:
    said = running.run("event", "why", "a/b c%2F")

    assert said.code == 3
    assert "nothing is known of an event 'a/b c%2F'" in said.out
    assert "kept for 7d" in said.out
