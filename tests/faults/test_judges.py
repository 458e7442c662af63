"""The judges find what is wrong: a little log that is well, and each way to spoil it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, cast

import httpx
import pytest

from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.names import AppRef, EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.signals.signal import Drop, Occurred, Put, Subscribe
from streamsched.domain.triggers.trigger import CustomEvent, leaf_id
from streamsched.ports.broker import Broker
from tests.faults.judges.homes import judge_changes, judge_homes
from tests.faults.judges.jobs import Stored, judge_jobs
from tests.faults.judges.log import Log
from tests.faults.judges.plain import judge_load
from tests.faults.judges.runs import judge_runs
from tests.faults.load.generated_schedules import NO_EVIDENCE, GeneratedSchedules
from tests.faults.load.plain_load import PlainLoad
from tests.faults.load.user import Returned, User
from tests.support.judgement import Judgement
from tests.support.rerun import Stamped

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
REF = ScheduleRef("default", "t0", "s0")
LEAF = CustomEvent(EventName("default", "t0e0"), 2)
HOME, KEY = f"schedule:{REF}", "event:default.t0e0"
JOB = f"{REF}.1.1"


def at(second: int) -> datetime:
    return START + timedelta(seconds=second)


def happened(number: int) -> Occurred:
    return Occurred(Event(f"t0-{number}", "faults", START, CustomHappened(LEAF.name)))


def stored_job(job: str, schedule: str | None, *, created: int, **fields: Any) -> dict[str, Any]:
    """A job's row, of generation 1, launched."""
    made = {"id": job, "schedule": schedule and f"default.t0.{schedule}", "generation": 1, "sequence": 1}
    ready = {"contributions": [], "key": ""}
    ended = {"state": "LAUNCHED", "reason": "", "waiting": None, "ended_at": at(created + 3), "joined": None}
    times = {"satisfied_at": at(created), "created_at": at(created)}
    return {**made, "ready": ready, **ended, **times, "submitted": False, "backfill": None, "muted": False, **fields}


def stored_run(job: str | None, program: str, kind: str, *, created: int = 5, **fields: Any) -> dict[str, Any]:
    """A run's row, completed."""
    what = {"program": f"default.t0.{program}", "executable": {"type": kind}}
    return {"job": job, **what, "state": "COMPLETED", "reason": "", "muted": False, "created_at": at(created), **fields}


@dataclass
class Little:
    """One schedule that wants two events; three came, one of them twice; its job was submitted."""

    homes: dict[str, list[Stamped]] = field(default_factory=dict)
    launched: list[ReadyJob] = field(default_factory=list)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    started: Counter[str] = field(default_factory=lambda: Counter({f"{JOB}.r1": 1}))
    reported: int = 1

    def __post_init__(self) -> None:
        put = Put(REF, 1, True, LEAF)
        first, second, third = (happened(number) for number in range(3))
        self.homes[HOME] = [(at(0), put), (at(2), first), (at(4), second), (at(6), third)]
        self.homes[KEY] = [(at(0), Subscribe(KEY, REF, 1)), (at(1), first), (at(3), second), (at(3), first)]
        self.homes[KEY].append((at(5), third))
        self.homes["program:default.t0.note:succeeded"] = [
            (at(9), Occurred(Event(f"{JOB}.r1:COMPLETED", "streamsched/runs", START, CustomHappened(LEAF.name))))
        ]
        part = Contribution(leaf_id(LEAF), 2, (first.event, second.event))
        self.launched.append(ReadyJob(REF, 1, 1, at(4), (part,)))
        self.jobs[JOB] = stored_job(JOB, "s0", created=4)

    def judged(self) -> Judgement:
        verdict = Judgement()
        definition = Schedule(REF, ProgramRef("default", "t0", "note"), LEAF)
        generated = GeneratedSchedules(AppRef("default", "t0"), Random(1), NO_EVIDENCE, {"s0": definition})
        user = User(generated, Random(1), cast(httpx.AsyncClient, None), [Returned("s0", self.reported, at(1), True)])
        user.enabled["s0"] = True
        emitted = {f"t0-{n}": {"type": "custom", "data": {"name": "default.t0e0"}} for n in range(3)}
        runs = {f"{JOB}.r1": stored_run(JOB, "note", "bash")}
        there = Stored(self.jobs, runs, self.started)
        judge_homes(self.homes, emitted, there.completed, verdict)
        judge_changes(self.homes, user, dict.fromkeys(emitted, 1), verdict)
        judge_jobs(self.homes, self.launched, at(100), verdict)
        judge_runs(self.homes, self.launched, there, user, verdict)
        return verdict


def loses_an_event(little: Little) -> None:
    del little.homes[KEY][-1], little.homes[HOME][-1]


def forwards_nothing(little: Little) -> None:
    del little.homes[HOME][-1]


def forwards_twice(little: Little) -> None:
    little.homes[HOME].append((at(8), happened(2)))


def forwards_in_another_order(little: Little) -> None:
    home = little.homes[HOME]
    home[1], home[2] = (home[1][0], home[2][1]), (home[2][0], home[1][1])


def tells_a_change_twice(little: Little) -> None:
    little.homes[HOME].append(little.homes[HOME][0])


def judges_by_what_was_changed(little: Little) -> None:
    little.reported = 2


def forgets_a_job(little: Little) -> None:
    little.launched.clear()
    little.jobs.clear()
    little.started.clear()


def launches_twice(little: Little) -> None:
    little.launched.append(little.launched[0])


def launches_what_is_not_wanted(little: Little) -> None:
    little.launched.append(replace(little.launched[0], sequence=2))


def tells_a_job_of_other_events(little: Little) -> None:
    part = replace(little.launched[0].contributions[0], events=(happened(0).event, happened(2).event))
    little.launched[0] = replace(little.launched[0], contributions=(part,))


def stores_nothing(little: Little) -> None:
    little.jobs.clear()


def waits_forever(little: Little) -> None:
    little.jobs[JOB]["state"] = "PENDING_CONSTRAINT"


def starts_nothing(little: Little) -> None:
    little.started.clear()


def starts_twice(little: Little) -> None:
    little.started[f"{JOB}.r1"] = 2


def gives_up_for_no_reason(little: Little) -> None:
    little.jobs[JOB]["state"] = "OBSOLETE"


def never_says_that_a_run_ended(little: Little) -> None:
    little.homes["program:default.t0.note:succeeded"].clear()


def test_what_is_well_is_found_well() -> None:
    assert Little().judged() == Judgement()


@pytest.mark.parametrize(
    ("spoil", "as_"),
    [
        (loses_an_event, "lost"),
        (forwards_nothing, "lost"),
        (forwards_twice, "doubled"),
        (forwards_in_another_order, "wrong"),
        (tells_a_change_twice, "doubled"),
        (judges_by_what_was_changed, "wrong"),
        (forgets_a_job, "lost"),
        (launches_twice, "doubled"),
        (launches_what_is_not_wanted, "doubled"),
        (tells_a_job_of_other_events, "lost"),
        (stores_nothing, "lost"),
        (waits_forever, "lost"),
        (starts_nothing, "lost"),
        (starts_twice, "doubled"),
        (gives_up_for_no_reason, "wrong"),
        (never_says_that_a_run_ended, "lost"),
    ],
    ids=lambda each: each.__name__ if callable(each) else each,
)
def test_each_wrong_is_found(spoil: Callable[[Little], None], as_: str) -> None:
    little = Little()
    spoil(little)

    verdict = little.judged()

    assert getattr(verdict, as_) > 0, verdict


def test_a_job_that_ended_with_its_definition_is_no_loss_unless_it_ran() -> None:
    little = Little(started=Counter())
    little.homes[HOME].append((at(8), Drop(REF, 1)))
    little.homes[HOME].append((at(8), Put(REF, 2, True, LEAF)))
    little.jobs[JOB]["state"] = "OBSOLETE"
    well = little.judged()
    little.started[f"{JOB}.r1"] = 1

    assert well.lost + well.doubled == 0
    assert little.judged().doubled == 1


def test_a_plain_load_of_which_nothing_came_home_is_lost() -> None:
    load, log, verdict = PlainLoad(0, Random(1)), Log(cast(Broker, None)), Judgement()
    log.begin(load.name)
    load.acknowledged()
    load.event()

    judge_load(log, load, verdict)

    assert (verdict.lost, verdict.doubled) == (1 + len(load.schedules), 0)
