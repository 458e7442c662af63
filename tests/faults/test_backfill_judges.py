"""The judges of backfills find what is wrong: one that completed, one that was cancelled, and each way to spoil
them.
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
from streamsched.domain.names import AppRef, ProgramRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.signals.signal import Drop
from tests.faults.judges.backfills import judge_backfills
from tests.faults.judges.jobs import Stored
from tests.faults.judges.requests import judge_requests
from tests.faults.judges.runs import judge_lanes, judge_runs
from tests.faults.load.backfills import AskedBackfill, mark_of_columns
from tests.faults.load.generated_schedules import NO_EVIDENCE, GeneratedSchedules
from tests.faults.load.requests import Requests
from tests.faults.load.user import User
from tests.faults.test_judges import HOME, JOB, LEAF, REF, Little, at, stored_job, stored_run
from tests.support.judgement import Judgement

WHOLE, STOPPED = f"{REF}.backfill-u1", f"{REF}.backfill-u2"
FIRST, SECOND, CANCELLED, UNMADE = f"{WHOLE}.1", f"{WHOLE}.2", f"{STOPPED}.2", f"{STOPPED}.3"
TICKS = ("2024-03-01T12:00:00+00:00", "2025-03-01T12:00:00+00:00")
CUSTOMERS = ("a", "b", "c")


def _ready(job: str, **submission: Any) -> dict[str, Any]:
    key = {} if "columns" not in submission else {"key": submission["columns"]["customer"]}
    return {"contributions": [], "events": [], **key, "submission": {"job": job, **submission}}


def _row(name: str, state: str, items: dict[str, list[Any]], **counts: int) -> dict[str, Any]:
    counted = {"skipped": 0, "active": 0, "succeeded": 0, "failed": 0, "dropped": 0, **counts}
    made = {"id": name, "schedule": str(REF), "state": state, "reason": "", "created_at": at(3), "found": items}
    return {**made, "items": len(items), **counted}


@dataclass
class Filled:
    """A muted backfill of two ticks that has completed; and one of three keys that was cancelled, when the first of its
    jobs ran, the second waited, and the third was not made.
    """

    little: Little = field(default_factory=Little)
    requests: Requests = field(default_factory=lambda: Requests(cast(Any, None), Random(1), cast(Any, None)))
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    serial: list[str] = field(default_factory=list)
    starts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keys = [mark_of_columns({"customer": customer}) for customer in CUSTOMERS]
        whole = AskedBackfill(WHOLE, str(REF), frozenset(TICKS), muted=True, max_active=1, promised=(2, 0))
        stopped = AskedBackfill(STOPPED, str(REF), frozenset(keys), max_active=2, promised=(3, 0))
        stopped.cancelled, stopped.never = True, frozenset({3})
        self.requests.backfills.accepted = {WHOLE: whole, STOPPED: stopped}
        self.requests.backfills.most_active = Counter({WHOLE: 1, STOPPED: 2})
        ticks = {str(n): _ready(f"{WHOLE}.{n}", logical_at=due) for n, due in enumerate(TICKS, 1)}
        of_keys = {str(n): _ready(f"{STOPPED}.{n}", columns={"customer": c}) for n, c in enumerate(CUSTOMERS, 1)}
        done = {number: ["SUCCEEDED", ready] for number, ready in ticks.items()}
        states = ("SUCCEEDED", "DROPPED", "WAITING")
        some = {number: [state, ready] for state, (number, ready) in zip(states, of_keys.items(), strict=True)}
        self.rows = {
            WHOLE: _row(WHOLE, "COMPLETED", done, succeeded=2),
            STOPPED: _row(STOPPED, "CANCELLED", some, succeeded=1, dropped=1),
        }
        self.jobs = {JOB: stored_job(JOB, "s0", created=4)}
        for number in ticks:
            self.make(WHOLE, number, muted=True)
        self.make(STOPPED, "1")
        self.make(STOPPED, "2")
        del self.runs[f"{CANCELLED}.r1"]
        self.jobs[CANCELLED] |= {"state": "ABORTED", "reason": f"cancelled: backfill {STOPPED} was cancelled"}
        self.runs[f"{JOB}.r1"] = stored_run(JOB, "note", "bash")

    def make(self, name: str, number: str, *, muted: bool = False) -> None:
        """The job of an item, which has run."""
        job = f"{name}.{number}"
        asked = {"submitted": True, "backfill": name, "muted": muted, "ready": self.rows[name]["found"][number][1]}
        self.jobs[job] = stored_job(job, "s0", created=5 + int(number), **asked)
        self.runs[f"{job}.r1"] = stored_run(job, "note", "bash", muted=muted)

    def judged(self) -> Judgement:
        verdict = Judgement()
        there = self.stored()
        definition = Schedule(REF, ProgramRef("default", "t0", "note"), LEAF)
        generated = GeneratedSchedules(AppRef("default", "t0"), Random(1), NO_EVIDENCE, {"s0": definition})
        user = User(generated, Random(1), cast(httpx.AsyncClient, None))
        judge_runs(self.little.homes, self.little.launched, there, user, verdict)
        judge_requests(self.little.homes, there, self.requests, user, verdict)
        judge_backfills(self.little.homes, there, self.requests, user, verdict)
        return verdict

    def stored(self) -> Stored:
        started = Counter({**dict.fromkeys(self.runs, 1), **self.starts})
        return Stored(self.jobs, self.runs, started, self.serial, backfills=self.rows)

    def asked(self, name: str) -> AskedBackfill:
        return self.requests.backfills.accepted[name]


def forgets_a_backfill(filled: Filled) -> None:
    for job in (FIRST, SECOND):
        del filled.jobs[job], filled.runs[f"{job}.r1"]
    del filled.rows[WHOLE]


def invents_a_backfill(filled: Filled) -> None:
    del filled.requests.backfills.accepted[WHOLE]


def never_ends_a_backfill(filled: Filled) -> None:
    filled.rows[WHOLE]["state"] = "RUNNING"


def leaves_a_backfill_paused(filled: Filled) -> None:
    filled.rows[WHOLE]["state"] = "PAUSED"


def completes_with_a_job_too_few(filled: Filled) -> None:
    del filled.jobs[SECOND], filled.runs[f"{SECOND}.r1"]


def makes_a_job_of_no_item(filled: Filled) -> None:
    filled.rows[WHOLE]["found"]["3"] = filled.rows[WHOLE]["found"]["2"]
    filled.make(WHOLE, "3", muted=True)
    del filled.rows[WHOLE]["found"]["3"]


def stores_an_item_too_few(filled: Filled) -> None:
    completes_with_a_job_too_few(filled)
    del filled.rows[WHOLE]["found"]["2"]
    filled.rows[WHOLE] |= {"items": 1, "succeeded": 1}
    filled.asked(WHOLE).promised = (1, 0)


def stores_an_item_twice(filled: Filled) -> None:
    for ready in (filled.rows[WHOLE]["found"]["2"][1], filled.jobs[SECOND]["ready"]):
        ready["submission"]["logical_at"] = TICKS[0]


def adds_a_tick_to_the_span(filled: Filled) -> None:
    filled.asked(WHOLE).span -= {TICKS[1]}


def promises_something_else(filled: Filled) -> None:
    filled.asked(WHOLE).promised = (3, 0)


def leaves_out_what_is_unknown(filled: Filled) -> None:
    stores_an_item_too_few(filled)
    filled.rows[WHOLE]["skipped"], filled.asked(WHOLE).promised = 1, (1, 1)
    filled.asked(WHOLE).everything = False


def leaves_out_what_is_known_though_all_was_wanted(filled: Filled) -> None:
    leaves_out_what_is_unknown(filled)
    filled.asked(WHOLE).everything = True
    knows_the_second_tick(filled)


def makes_a_job_of_another_tick(filled: Filled) -> None:
    ready = filled.jobs[SECOND]["ready"]
    filled.jobs[SECOND]["ready"] = {**ready, "submission": {**ready["submission"], "logical_at": TICKS[0]}}


def makes_a_job_of_other_events(filled: Filled) -> None:
    filled.jobs[SECOND]["ready"] = {**filled.jobs[SECOND]["ready"], "events": [{"id": "x"}]}


def makes_a_job_of_another_key(filled: Filled) -> None:
    filled.jobs[f"{STOPPED}.1"]["ready"] = {**filled.jobs[f"{STOPPED}.1"]["ready"], "key": "c"}


def runs_an_item_twice(filled: Filled) -> None:
    filled.runs[f"{FIRST}.r2"] = stored_run(FIRST, "note", "bash", muted=True)


def never_starts_an_item(filled: Filled) -> None:
    filled.jobs[FIRST]["state"] = "PENDING_CONSTRAINT"


def joins_an_item(filled: Filled) -> None:
    del filled.runs[f"{FIRST}.r1"]
    filled.jobs[FIRST] |= {"state": "COALESCED", "joined": JOB}


def drops_an_item(filled: Filled) -> None:
    del filled.runs[f"{FIRST}.r1"]
    filled.jobs[FIRST]["state"] = "ABORTED"
    filled.rows[WHOLE]["found"]["1"][0] = "DROPPED"
    filled.rows[WHOLE] |= {"succeeded": 1, "dropped": 1}


def is_heard(filled: Filled) -> None:
    filled.runs[f"{FIRST}.r1"]["muted"] = False


def is_muted(filled: Filled) -> None:
    filled.jobs[f"{STOPPED}.1"]["muted"] = True


def has_too_many_active(filled: Filled) -> None:
    filled.requests.backfills.most_active[WHOLE] = 2


def states_another_end(filled: Filled) -> None:
    filled.rows[WHOLE]["found"]["1"][0] = "FAILED"
    filled.rows[WHOLE] |= {"succeeded": 1, "failed": 1}


def counts_wrongly(filled: Filled) -> None:
    filled.rows[WHOLE]["succeeded"] = 1


def never_states_an_end(filled: Filled) -> None:
    filled.rows[STOPPED]["found"]["1"][0] = "ACTIVE"
    filled.rows[STOPPED] |= {"active": 1, "succeeded": 0}


def makes_jobs_while_paused(filled: Filled) -> None:
    filled.requests.backfills.contradictions.append("paused and made jobs")


def makes_a_job_after_its_cancellation(filled: Filled) -> None:
    filled.make(STOPPED, "3")
    filled.rows[STOPPED]["found"]["3"][0] = "SUCCEEDED"
    filled.rows[STOPPED]["succeeded"] = 2


def makes_a_job_of_a_waiting_item(filled: Filled) -> None:
    filled.asked(STOPPED).never = frozenset()
    filled.make(STOPPED, "3")


def loses_a_job_that_was_made(filled: Filled) -> None:
    del filled.jobs[CANCELLED]


def runs_what_was_cancelled(filled: Filled) -> None:
    filled.runs[f"{CANCELLED}.r1"] = stored_run(CANCELLED, "note", "bash")


def never_ends_what_was_cancelled(filled: Filled) -> None:
    filled.jobs[CANCELLED]["state"] = "PENDING_CONSTRAINT"


def cancels_by_itself(filled: Filled) -> None:
    filled.asked(STOPPED).cancelled = False


def completes_what_was_cancelled(filled: Filled) -> None:
    filled.asked(WHOLE).cancelled = True


def knows_the_second_tick(filled: Filled) -> None:
    """By a job of a tick of the schedule itself."""
    ready = {"contributions": [], "events": [{"id": "x", "data": {"due_at": "2025-03-01T12:00:00Z"}}]}
    filled.jobs[JOB]["ready"] = ready


def test_backfills_without_a_fault_are_judged_well() -> None:
    assert Filled().judged() == Judgement()


def test_what_is_known_may_be_left_out() -> None:
    filled = Filled()
    leaves_out_what_is_unknown(filled)
    knows_the_second_tick(filled)

    assert filled.judged() == Judgement()


def test_a_backfill_that_may_have_been_requested_is_no_fault() -> None:
    filled = Filled()
    invents_a_backfill(filled)
    filled.requests.unsure.add(WHOLE)

    assert filled.judged() == Judgement()


def test_a_backfill_is_cancelled_when_its_schedule_is_deleted() -> None:
    filled = Filled()
    cancels_by_itself(filled)
    filled.little.homes[HOME].append((at(8), Drop(REF, 1)))

    assert filled.judged() == Judgement()


@pytest.mark.parametrize(("started", "doubled"), [(0, 0), (1, 2)])
def test_a_run_of_a_superseded_job_is_killed_before_it_begins(started: int, doubled: int) -> None:
    filled = Filled()
    filled.jobs[FIRST]["state"] = "OBSOLETE"
    filled.runs[f"{FIRST}.r1"]["state"] = "KILLED"
    filled.starts[f"{FIRST}.r1"] = started
    filled.rows[WHOLE]["found"]["1"][0] = "FAILED"
    filled.rows[WHOLE] |= {"succeeded": 1, "failed": 1}
    filled.little.homes[HOME].append((at(8), Drop(REF, 1)))

    verdict = filled.judged()

    assert (verdict.lost, verdict.doubled, verdict.wrong) == (0, doubled, 0), verdict


@pytest.mark.parametrize(
    ("spoil", "as_"),
    [
        (forgets_a_backfill, "lost"),
        (invents_a_backfill, "doubled"),
        (never_ends_a_backfill, "lost"),
        (leaves_a_backfill_paused, "lost"),
        (completes_with_a_job_too_few, "lost"),
        (makes_a_job_of_no_item, "doubled"),
        (stores_an_item_too_few, "lost"),
        (stores_an_item_twice, "doubled"),
        (adds_a_tick_to_the_span, "doubled"),
        (promises_something_else, "wrong"),
        (leaves_out_what_is_unknown, "lost"),
        (leaves_out_what_is_known_though_all_was_wanted, "lost"),
        (makes_a_job_of_another_tick, "wrong"),
        (makes_a_job_of_other_events, "wrong"),
        (makes_a_job_of_another_key, "wrong"),
        (runs_an_item_twice, "doubled"),
        (never_starts_an_item, "lost"),
        (joins_an_item, "wrong"),
        (drops_an_item, "wrong"),
        (is_heard, "wrong"),
        (is_muted, "wrong"),
        (has_too_many_active, "doubled"),
        (states_another_end, "wrong"),
        (counts_wrongly, "wrong"),
        (never_states_an_end, "lost"),
        (makes_jobs_while_paused, "wrong"),
        (makes_a_job_after_its_cancellation, "doubled"),
        (makes_a_job_of_a_waiting_item, "doubled"),
        (loses_a_job_that_was_made, "lost"),
        (runs_what_was_cancelled, "doubled"),
        (never_ends_what_was_cancelled, "lost"),
        (cancels_by_itself, "wrong"),
        (completes_what_was_cancelled, "wrong"),
    ],
    ids=lambda each: each.__name__ if callable(each) else each,
)
def test_each_wrong_of_a_backfill_is_found(spoil: Callable[[Filled], None], as_: str) -> None:
    filled = Filled()
    spoil(filled)

    verdict = filled.judged()

    assert getattr(verdict, as_) > 0, verdict


def test_the_most_active_jobs_of_all_checks_are_kept() -> None:
    filled, backfills = Filled(), Filled().requests.backfills
    backfills.most_active.clear()
    filled.jobs[FIRST]["state"] = "PENDING_CONSTRAINT"
    filled.runs[f"{SECOND}.r1"]["state"] = "RUNNING"
    backfills.look(filled.stored())
    backfills.look(Filled().stored())

    assert backfills.most_active == Counter({WHOLE: 2})


@pytest.mark.parametrize(("paused", "wrong"), [((), 1), ((WHOLE,), 0)])
def test_jobs_of_a_paused_backfill_let_others_of_their_lane_go_first(paused: tuple[str, ...], wrong: int) -> None:
    filled, verdict = Filled(), Judgement()
    filled.serial = [f"{sign}{job}.r1" for job in (SECOND, FIRST) for sign in "+-"]
    filled.runs[f"{SECOND}.r1"]["created_at"] = at(12)

    judge_lanes(filled.stored(), {"s0": ConcurrencyScope.SCHEDULE}, verdict, paused)

    assert verdict.wrong == wrong
