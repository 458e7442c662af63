"""Lanes against a list for each: who starts of some jobs of one schedule that are decided together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.constraints.constraint import Concurrency, ConcurrencyScope
from streamsched.domain.constraints.lane import Lane
from streamsched.domain.constraints.pool import QueuePosition
from streamsched.domain.decisions.decision import Admit, DecisionInput, DueJob, Wait
from streamsched.domain.decisions.judge import judge
from streamsched.domain.decisions.lanes import limits_of
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.domain.triggers.trigger import CustomEvent

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PROGRAM = Program(ProgramRef("default", "app", "load"), BashJob("true"))
LIMITS = st.lists(
    st.builds(
        Concurrency,
        st.integers(1, 3),
        st.just(True),
        st.sampled_from([ConcurrencyScope.KEY, ConcurrencyScope.SCHEDULE]),
    ),
    min_size=1,
    max_size=3,
)


@given(LIMITS, st.text("ab", min_size=1, max_size=6), st.data())
def test_jobs_start_in_order_while_their_lanes_have_places(
    limits: list[Concurrency], keys: str, data: st.DataObject
) -> None:
    schedule = Schedule(
        ScheduleRef("default", "app", "s"),
        PROGRAM.ref,
        CustomEvent(EventName("default", "go")),
        tuple(limits),
        overlap=Overlap.QUEUE,
    )
    due = [
        DueJob(ReadyJob(schedule.ref, 1, n, NOW + timedelta(seconds=10 * n), (), key), schedule, 1, enabled=True)
        for n, key in enumerate(keys, 1)
    ]
    names = sorted({name for each in due for name in limits_of(schedule, each.ready)})
    seconds = st.lists(st.integers(0, 70).filter(lambda second: second % 10 != 0), max_size=2, unique=True)
    others = {name: sorted(data.draw(seconds)) for name in names}
    lanes = {
        name: Lane(
            tuple(f"run{n}" for n in range(data.draw(st.integers(0, 2)))),
            tuple(QueuePosition(NOW + timedelta(seconds=n), n, f"other{n}") for n in others[name]),
        )
        for name in names
    }

    decisions = judge(DecisionInput(PROGRAM, tuple(due), lanes=lanes), now=NOW + timedelta(minutes=2))

    active = {name: len(lanes[name].runs) for name in names}
    waits = {name: list(others[name]) for name in names}
    for number, (each, decision) in enumerate(zip(due, decisions, strict=True), 1):
        most = limits_of(schedule, each.ready)
        held_by = [n for n in most if active[n] + sum(second < 10 * number for second in waits[n]) >= most[n]]
        assert isinstance(decision, Wait if held_by else Admit)
        if isinstance(decision, Wait):
            narrowest = min(held_by, key=lambda name: name.scope is ConcurrencyScope.SCHEDULE)
            assert decision.lanes == (narrowest,), "so a busy key takes no place of its schedule from others"
            assert decision.skip_on_run_end
            waits[narrowest].append(10 * number)
        else:
            for name in most:
                active[name] += 1
