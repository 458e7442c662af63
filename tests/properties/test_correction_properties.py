"""Corrections: what comes for a key after its job, against a model that knows days and lists."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.records import launch, state
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.events.event import CustomHappened, Event, Partition, PartitionsAdded
from streamsched.domain.fold.plan import build_plan
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.signals.signal import Occurred, Put
from streamsched.domain.signals.verdict import Verdict
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.on_correction import IGNORE, RERUN, OnCorrection
from streamsched.domain.triggers.trigger import AllOf, CustomEvent, Partitions
from streamsched.testing import strategies as world
from streamsched.testing.examples import examples
from tests.support import keyed_strategies as keyed
from tests.support.engine import Engine, reported
from tests.support.rerun import Stamped
from tests.support.timed_strategies import START, STEP

DAY = timedelta(days=1)
#: Hours that make a day whole, of the three there are.
ENOUGH = 2


class Job(NamedTuple):
    """What a job is about: when it was satisfied, which job it corrects, and the partitions it was given."""

    at: datetime
    corrects: str
    given: frozenset[str]


class Beat(NamedTuple):
    """So many steps after the one before, these hours of the day were written, each as two partitions or one."""

    steps: int
    day: int
    hours: frozenset[int]


@dataclass
class Day:
    """A key: what has come of it while it is open, or after its job."""

    opened: datetime
    came: set[str] = field(default_factory=set)
    job: str = ""
    wait: set[str] = field(default_factory=set)
    last: datetime | None = None


@dataclass
class Model:
    """Attributes:
    lost: keys that were dropped incomplete.
    """

    policy: OnCorrection | None
    expires: timedelta
    jobs: dict[str, list[Job]] = field(default_factory=dict)
    days: dict[str, Day] = field(default_factory=dict)
    number: int = 0
    lost: int = 0

    def pass_time(self, name: str, at: datetime) -> None:
        day = self.days.get(name)
        if day is None:
            return
        if day.job and day.last is not None and self.policy is not None and self.policy.quiet is not None:
            due = min(day.last + self.policy.quiet, day.opened + self.expires)
            if due <= at:
                self.make(name, day, due)
        if day.opened + self.expires <= at:
            self.lost += not day.job
            del self.days[name]

    def make(self, name: str, day: Day, at: datetime) -> None:
        self.number += 1
        self.jobs.setdefault(name, []).append(Job(at, day.job, frozenset(day.wait if day.job else day.came)))
        day.job, day.opened, day.last = str(self.number), at, None
        day.wait, day.came = set(), set()

    def write(self, name: str, hours: frozenset[int], at: datetime) -> None:
        self.pass_time(name, at)
        day = self.days.setdefault(name, Day(at))
        parts = {part(name, hour) for hour in hours}
        if not day.job:
            day.came |= parts
            if len(day.came) >= ENOUGH:
                self.make(name, day, at)
                if self.policy is None:
                    del self.days[name]
        elif self.policy is not None and self.policy.quiet is not None:
            day.wait |= parts
            day.last = at
            self.pass_time(name, at)


def part(day: str, hour: int) -> str:
    return f"hour={day}T{hour:02d}"


def commit(number: int, beat: Beat, at: datetime) -> Event:
    day = keyed.DAYS[beat.day]
    rows = tuple(Partition(part(day, hour), {"hour": f"{day}T{hour:02d}"}) for hour in sorted(beat.hours))
    return Event(f"c{number}", "test", at, PartitionsAdded(keyed.FLIGHTS, rows, len(rows)))


def put(policy: OnCorrection | None, expires: timedelta, *, generation: int = 1, keep: bool = False) -> Put:
    when = Per(
        Partitions(keyed.FLIGHTS),
        ("hour",),
        Grain.HOUR,
        rolled_up_to=Grain.DAY,
        of=ENOUGH,
        expires=expires,
        on_correction=policy,
    )
    return Put(world.SCHEDULE, generation, True, when, Consumption.CUMULATIVE, keep)


beats = st.lists(
    st.builds(Beat, st.integers(0, 5), st.integers(0, 1), st.frozensets(st.integers(5, 7), min_size=1)), max_size=25
)
policies = st.sampled_from([None, IGNORE, RERUN, OnCorrection(STEP), OnCorrection(3 * STEP)])


@examples(300)
@given(beats, policies, st.sampled_from([4 * STEP, 20 * STEP]))
def test_corrections_make_the_jobs_of_the_model_whenever_wake_ups_come(
    beats: list[Beat], policy: OnCorrection | None, expires: timedelta
) -> None:
    model, at = Model(policy, expires), START
    log: list[Stamped] = [(at, put(policy, expires))]
    for number, beat in enumerate(beats):
        at += beat.steps * STEP
        model.write(keyed.DAYS[beat.day], beat.hours, at)
        log.append((at, Occurred(commit(number, beat, at))))
    end = at + 3 * DAY
    for name in keyed.DAYS:
        model.pass_time(name, end)

    for prompt in (True, False):
        engine = reported(log, world.SCHEDULE, end=end, prompt=prompt)
        assert jobs_of(engine) == {name: unnumbered(jobs) for name, jobs in model.jobs.items()}
        assert engine.state is not None
        assert engine.state.lost == model.lost
        assert set(engine.cells) == set(model.days)


def jobs_of(engine: Engine) -> dict[str, list[tuple[datetime, int, frozenset[str]]]]:
    """By key: when, which job of the key it corrects, counted from 1, and what it was given."""
    found: dict[str, list[ReadyJob]] = {}
    for _, job in engine.jobs:
        assert launch.decode(launch.encode(job)) == job
        found.setdefault(job.key, []).append(job)
    return {
        key: [
            (job.satisfied_at, 1 + [each.id for each in jobs].index(job.corrects) if job.corrects else 0, keys_of(job))
            for job in jobs
        ]
        for key, jobs in found.items()
    }


def unnumbered(jobs: list[Job]) -> list[tuple[datetime, int, frozenset[str]]]:
    """A correction is of the job before it: keys are never forgotten between the two."""
    return [(job.at, place if job.corrects else 0, job.given) for place, job in enumerate(jobs)]


def keys_of(job: ReadyJob) -> frozenset[str]:
    facts = [event.fact for each in job.contributions for event in each.events]
    return frozenset(each.key for fact in facts if isinstance(fact, PartitionsAdded) for each in fact.partitions)


@pytest.mark.parametrize(
    ("policy", "verdict", "says"),
    [
        (None, Verdict.COUNTED, ""),
        (IGNORE, Verdict.CORRECTION, "corrects default.app.s.1.1 of key 2013-01-07, which is ignored"),
        (RERUN, Verdict.CORRECTION, "corrects default.app.s.1.1 of key 2013-01-07"),
    ],
)
def test_a_correction_has_a_verdict_of_its_own(policy: OnCorrection | None, verdict: Verdict, says: str) -> None:
    engine = Engine(world.SCHEDULE)
    engine.tell(START, put(policy, DAY))
    engine.tell(START, Occurred(commit(0, Beat(0, 0, frozenset({5, 6})), START)))
    judged = engine.tell(START + STEP, Occurred(commit(1, Beat(0, 0, frozenset({5})), START + STEP))).verdict

    assert judged is not None
    assert (judged.verdict, judged.why) == (verdict, says.replace("default.app.s", str(world.SCHEDULE)))
    assert judged.cells == ("2013-01-07",)
    assert len(engine.jobs) == (2 if policy is RERUN else 1)


def test_finished_keys_survive_a_change_that_keeps_and_are_forgotten_before_an_open_key_is_lost() -> None:
    engine = Engine(world.SCHEDULE)
    engine.tell(START, put(OnCorrection(STEP), DAY))
    engine.tell(START, Occurred(commit(0, Beat(0, 0, frozenset({5, 6})), START)))
    engine.tell(START, Occurred(commit(1, Beat(0, 0, frozenset({7})), START)))
    assert engine.state is not None
    stored = state.encode_key(engine.state.definition, engine.cells["2013-01-07"], "2013-01-07")
    assert state.decode_key(stored, engine.state.definition, "2013-01-07") == engine.cells["2013-01-07"]

    engine.tell(START, put(OnCorrection(2 * STEP), DAY, generation=2, keep=True))
    engine.wake_up(START + STEP)
    assert len(engine.jobs) == 1
    engine.wake_up(START + 2 * STEP)
    assert [(job.generation, job.corrects) for _, job in engine.jobs] == [(1, ""), (2, f"{world.SCHEDULE}.1.1")]

    engine.tell(START + 2 * STEP, put(None, DAY, generation=3, keep=True))
    assert engine.cells == {}


def test_corrections_without_an_end_wait_in_bounded_memory() -> None:
    engine = Engine(world.SCHEDULE)
    engine.tell(START, put(OnCorrection(DAY), 2 * DAY))
    engine.tell(START, Occurred(commit(0, Beat(0, 0, frozenset({5, 6})), START)))
    for number in range(2_500):
        engine.tell(START, Occurred(commit(number + 1, Beat(0, 0, frozenset({5 + number % 3})), START)))
        waiting = sum(len(each.events) for each in engine.cells["2013-01-07"].accumulations.values())
        assert waiting <= 1_001


def test_a_join_of_hours_and_a_day_tells_corrections_apart_where_one_side_says_so() -> None:
    """The roll-up has its default; what is not rolled up says nothing of corrections."""
    day = Per(CustomEvent(keyed.NAMES[0]), ("day",), Grain.DAY, expires=DAY)
    hours = put(RERUN, DAY).trigger
    for both in (AllOf((hours, day)), AllOf((day, hours))):
        engine = Engine(world.SCHEDULE)
        engine.tell(START, Put(world.SCHEDULE, 1, True, both))
        engine.tell(START, Occurred(commit(0, Beat(0, 0, frozenset({5, 6})), START)))
        approved = CustomHappened(keyed.NAMES[0], {"day": keyed.DAYS[0]})
        engine.tell(START, Occurred(Event("e", "test", START, approved)))
        engine.tell(START, Occurred(commit(1, Beat(0, 0, frozenset({5})), START)))
        assert [bool(job.corrects) for _, job in engine.jobs] == [False, True]
    with pytest.raises(InvalidDefinitionError, match="different things of corrections"):
        build_plan(AllOf((hours, Per(day.trigger, ("day",), Grain.DAY, expires=DAY, on_correction=IGNORE))))
