"""The judges of requests, lanes and published events find what is wrong: a little world that is well, and each way to
spoil it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

import httpx
import pytest

from streamsched.domain.constraints.constraint import ConcurrencyScope
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.names import AppRef, EventName, ProgramRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.signals.signal import Occurred
from tests.faults.judges.homes import judge_homes
from tests.faults.judges.jobs import Stored
from tests.faults.judges.requests import judge_requests
from tests.faults.judges.runs import judge_lanes, judge_published, judge_runs, ran_once
from tests.faults.load.generated_schedules import NO_EVIDENCE, GeneratedSchedules
from tests.faults.load.requests import Accepted, Requests
from tests.faults.load.user import User
from tests.faults.sites.visibility import Visibility
from tests.faults.test_judges import JOB, LEAF, REF, START, Little, at, stored_job, stored_run
from tests.support.judgement import Judgement

SUBMITTED, RERUN, CALLED, MANUAL = f"{REF}.submitted-u1", f"{JOB}.rerun-u2", "default.t0.call.submitted-u3", "m.r1"


@dataclass
class Asked:
    """What a person asked for in the little world: a submission, a muted rerun, a call that was sent twice because its
    launcher died, and a run at once.
    """

    little: Little = field(default_factory=Little)
    requests: Requests = field(default_factory=lambda: Requests(cast(Any, None), Random(1), cast(Any, None)))
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=lambda: Counter({CALLED: 2}))
    serial: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.requests.accepted = {SUBMITTED: Accepted(), RERUN: Accepted(JOB, True, True), CALLED: Accepted(alone=True)}
        self.requests.at_once = {MANUAL}
        self.jobs = {
            JOB: stored_job(JOB, "s0", created=4),
            SUBMITTED: stored_job(SUBMITTED, "s0", created=7, submitted=True),
            RERUN: stored_job(RERUN, "s0", created=9, submitted=True, muted=True),
            CALLED: stored_job(CALLED, None, created=11, submitted=True),
        }
        self.runs = {f"{job}.r1": stored_run(job, "serial", "bash") for job in (JOB, SUBMITTED, RERUN)}
        self.runs[f"{RERUN}.r1"]["muted"] = True
        self.runs[f"{CALLED}.r1"] = stored_run(CALLED, "call", "http", state="LOST")
        self.runs[f"{CALLED}.r2"] = stored_run(CALLED, "call", "http")
        self.runs[MANUAL] = stored_run(None, "note", "bash")
        for sign in (JOB, SUBMITTED, RERUN):
            self.serial += [f"+{sign}.r1", f"-{sign}.r1"]

    def judged(self) -> Judgement:
        verdict = Judgement()
        started = Counter({run: 1 for run, row in self.runs.items() if row["executable"]["type"] == "bash"})
        there = Stored(self.jobs, self.runs, started, self.serial, self.calls)
        definition = Schedule(REF, ProgramRef("default", "t0", "serial"), LEAF)
        generated = GeneratedSchedules(AppRef("default", "t0"), Random(1), NO_EVIDENCE, {"s0": definition})
        user = User(generated, Random(1), cast(httpx.AsyncClient, None))
        judge_runs(self.little.homes, self.little.launched, there, user, verdict)
        judge_requests(self.little.homes, there, self.requests, user, verdict)
        judge_lanes(there, {"s0": ConcurrencyScope.SCHEDULE}, verdict)
        return verdict


def forgets_a_submission(asked: Asked) -> None:
    del asked.jobs[SUBMITTED], asked.runs[f"{SUBMITTED}.r1"], asked.serial[2:4]


def invents_a_submission(asked: Asked) -> None:
    del asked.requests.accepted[SUBMITTED]


def never_starts_a_submission(asked: Asked) -> None:
    asked.jobs[SUBMITTED]["state"] = "PENDING_CONSTRAINT"


def drops_a_submission(asked: Asked) -> None:
    asked.jobs[SUBMITTED]["state"] = "ABORTED"


def joins_a_rerun(asked: Asked) -> None:
    asked.jobs[RERUN] |= {"state": "COALESCED", "joined": JOB}


def reruns_other_events(asked: Asked) -> None:
    asked.jobs[RERUN]["ready"] = {"contributions": [{"leaf": "x"}], "key": ""}


def runs_a_submission_twice(asked: Asked) -> None:
    asked.runs[f"{SUBMITTED}.r2"] = stored_run(SUBMITTED, "serial", "bash")


def answers_with_two_jobs(asked: Asked) -> None:
    asked.requests.contradictions.append("another job")


def completes_a_call_twice(asked: Asked) -> None:
    asked.runs[f"{CALLED}.r1"]["state"] = "COMPLETED"


def never_completes_a_call(asked: Asked) -> None:
    asked.runs[f"{CALLED}.r2"]["state"] = "LOST"


def fails_a_call(asked: Asked) -> None:
    asked.runs[f"{CALLED}.r1"]["state"] = "FAILED"


def never_sends_a_call(asked: Asked) -> None:
    asked.calls.clear()


def forgets_a_run_at_once(asked: Asked) -> None:
    del asked.runs[MANUAL]


def starts_at_once_what_nobody_asked_for(asked: Asked) -> None:
    asked.requests.at_once.clear()


def fails_a_run_at_once(asked: Asked) -> None:
    asked.runs[MANUAL]["state"] = "LOST"


def runs_two_of_a_lane(asked: Asked) -> None:
    serial = asked.serial
    serial[1], serial[2] = serial[2], serial[1]


def overtakes_in_a_lane(asked: Asked) -> None:
    serial = asked.serial
    serial[2:4], serial[4:6] = serial[4:6], serial[2:4]
    asked.runs[f"{RERUN}.r1"]["created_at"] = at(12)


def test_what_was_asked_for_and_done_is_found_well() -> None:
    assert Asked().judged() == Judgement()


def test_a_job_that_was_stored_late_is_no_one_s_to_wait_for() -> None:
    asked = Asked()
    overtakes_in_a_lane(asked)
    asked.jobs[SUBMITTED]["created_at"] = at(13)

    assert asked.judged() == Judgement()


@pytest.mark.parametrize(
    ("spoil", "as_"),
    [
        (forgets_a_submission, "lost"),
        (invents_a_submission, "doubled"),
        (never_starts_a_submission, "lost"),
        (drops_a_submission, "wrong"),
        (joins_a_rerun, "wrong"),
        (reruns_other_events, "wrong"),
        (runs_a_submission_twice, "doubled"),
        (answers_with_two_jobs, "wrong"),
        (completes_a_call_twice, "doubled"),
        (never_completes_a_call, "lost"),
        (fails_a_call, "wrong"),
        (never_sends_a_call, "lost"),
        (forgets_a_run_at_once, "lost"),
        (starts_at_once_what_nobody_asked_for, "doubled"),
        (fails_a_run_at_once, "wrong"),
        (runs_two_of_a_lane, "doubled"),
        (overtakes_in_a_lane, "wrong"),
    ],
    ids=lambda each: each.__name__ if callable(each) else each,
)
def test_each_wrong_of_a_request_is_found(spoil: Callable[[Asked], None], as_: str) -> None:
    asked = Asked()
    spoil(asked)

    verdict = asked.judged()

    assert getattr(verdict, as_) > 0, verdict


@pytest.mark.parametrize(("came", "lost", "doubled"), [((1,), 0, 0), ((), 1, 0), ((1, 1), 0, 1), ((1, 2), 0, 1)])
def test_a_published_event_came_once_and_no_other_did(came: tuple[int, ...], lost: int, doubled: int) -> None:
    event, verdict = EventName("default", "t0told"), Judgement()
    runs = {f"r{n}": stored_run("j", "tell", "publish", state=state) for n, state in ((1, "COMPLETED"), (2, "LOST"))}
    events = (Event(f"r{n}:{event}", "streamsched/runs", START, CustomHappened(event)) for n in came)
    homes = {f"event:{event}": [(at(9), Occurred(each)) for each in events]}

    judge_published(homes, Stored({}, runs, Counter()), event, verdict)

    assert (verdict.lost, verdict.doubled, verdict.wrong) == (lost, doubled, 0)


@pytest.mark.parametrize(("muted", "came", "lost", "doubled"), [(True, 0, 0, 0), (True, 1, 0, 1), (False, 0, 1, 0)])
def test_the_end_of_a_muted_run_is_given_to_nobody(muted: bool, came: int, lost: int, doubled: int) -> None:
    ended = Occurred(Event("r1:COMPLETED", "streamsched/runs", START, CustomHappened(LEAF.name)))
    verdict = Judgement()

    judge_homes(
        {"program:default.t0.note:succeeded": [(at(1), ended)] * came}, {}, [("r1", "default.t0.note", muted)], verdict
    )

    assert (verdict.lost, verdict.doubled) == (lost, doubled)


@pytest.mark.parametrize(("job", "hidden"), [("active", True), ("ended", False), ("later", True), ("unknown", False)])
def test_a_job_that_no_snapshot_shows_yet_is_not_overtaken(job: str, hidden: bool) -> None:
    seen = Visibility({"active": 7, "ended": 9, "later": 10}, {"run": "5:10:7,8"})
    assert seen.hidden(job, "run") is hidden
    assert not seen.hidden(job, "another run")


@pytest.mark.parametrize(
    ("state", "permitted", "lost"),
    [("LOST", True, 1), ("LOST", False, 0), ("KILLED", False, 0), ("KILLED", True, 1), ("FAILED", False, 1)],
)
def test_a_lost_request_is_not_repeated_when_its_schedule_has_changed(state: str, permitted: bool, lost: int) -> None:
    asked = Asked()
    asked.runs = {f"{CALLED}.r1": {**stored_run(CALLED, "call", "http"), "state": state}}
    verdict = Judgement()
    ran_once(CALLED, Stored(asked.jobs, asked.runs, Counter(), [], asked.calls), verdict, permitted=permitted)
    assert verdict.lost == lost
