"""A schedule's home lived through: events, definitions, pauses, wake-ups and restarts in any order, beside a machine
that is given the whole log anew. Restarts go through the rows a shard keeps, pages and all.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamsched.domain.fold.fold import Folded
from streamsched.domain.signals.signal import Occurred, Put, Signal, Woken
from streamsched.stream.agents.accumulated import TriggerStates
from streamsched.testing import strategies as world
from streamsched.testing.examples import examples
from tests.support import keyed_strategies as keyed
from tests.support import timed_strategies as timed
from tests.support.engine import Engine
from tests.support.rerun import Expected, Stamped, rerun

KEY = f"schedule:{world.SCHEDULE}".encode()


class Home(RuleBasedStateMachine):
    """What every home goes through; what it is given comes from those below."""

    puts: st.SearchStrategy[Put]

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(world.SCHEDULE)
        self.table: dict[bytes, bytes] = {}
        self.rows = TriggerStates(self.table)
        self.log: list[Stamped] = []
        self.now: datetime = timed.START
        self.put: Any = None
        self.other: Any = None

    def tell(self, signal: Signal) -> None:
        if not isinstance(signal, Woken):
            self.log.append((self.now, signal))
        self.stored(self.engine.tell(self.now, signal))

    def stored(self, folded: Folded) -> None:
        """A turn of one signal."""
        self.rows.state(KEY)
        self.rows.cells(KEY)
        self.rows.fold(KEY, folded)
        self.rows.store()

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.put, self.other = data.draw(self.puts), data.draw(self.puts)
        self.tell(self.put)

    @rule(which=st.integers(0, 255), steps=st.sampled_from([0, 0, 0, 1, 2]))
    def happen(self, which: int, steps: int) -> None:
        self.now += steps * timed.STEP
        event = self.event(which)
        self.tell(Occurred(event, self.now - event.time))

    def event(self, which: int) -> Any:
        return timed.event_of(self.put, f"e{len(self.log)}", self.now, which)

    @rule(kind=st.sampled_from(["pause", "resume", "keep", "reset", "again", "drop"]), which=st.integers(0, 3))
    def change(self, kind: str, which: int) -> None:
        signal, self.put = timed.changed(kind, self.put, [self.other, self.other], which)
        self.tell(signal)

    @rule(steps=st.integers(1, 6))
    def time_passes_and_wake_ups_come_at_their_time(self, steps: int) -> None:
        to = self.now + steps * timed.STEP
        while due := [(at, key) for key, at in self.engine.asked.items() if at <= to]:
            self.now, key = max(min(due)[0], self.now), min(due)[1]
            self.stored(self.engine.wake(key, self.now))
        self.now = to

    @rule(steps=st.integers(1, 6))
    def time_passes_and_nobody_wakes(self, steps: int) -> None:
        self.now += steps * timed.STEP

    @precondition(lambda self: self.engine.asked)
    @rule()
    def a_wake_up_comes_again(self) -> None:
        key, at = min(self.engine.asked.items())
        if at <= self.now:
            generation = 0 if self.engine.state is None else self.engine.state.generation
            self.tell(Woken(world.SCHEDULE, generation, key, at))

    @rule()
    def another_worker_takes_over(self) -> None:
        self.rows = TriggerStates(dict(self.table))
        self.table = self.rows._table  # type: ignore[assignment]
        self.engine.state = self.rows.state(KEY)
        self.engine.cells = dict(self.rows.cells(KEY))

    @invariant()
    def jobs_are_those_of_the_naive_machine(self) -> None:
        """Once what is due by now has been judged: on a copy, because a reader must not cause a wake-up."""
        copy = Engine(world.SCHEDULE, self.engine.state, dict(self.engine.cells), dict(self.engine.asked))
        copy.jobs = list(self.engine.jobs)
        copy.wake_up_late(self.now)

        assert by_key([Expected.of(job) for _, job in copy.jobs]) == by_key(rerun(self.log, self.now).jobs)

    @invariant()
    def nothing_is_left_of_a_schedule_that_is_gone(self) -> None:
        if self.engine.state is None:
            assert self.table == {}


def by_key(jobs: list[Expected]) -> list[Expected]:
    """Jobs of different keys may come in any order."""
    return sorted(jobs, key=lambda job: job.key)


class ClockHome(Home):
    puts = timed.puts()


class KeyHome(Home):
    puts = timed.puts(keyed.triggers())

    def event(self, which: int) -> Any:
        return keyed.event_of(self.put.trigger, f"e{len(self.log)}", self.now, which)


ClockHome.TestCase.settings = examples(100, steps=20)
KeyHome.TestCase.settings = examples(100, steps=20)
TestClockHome = ClockHome.TestCase
TestKeyHome = KeyHome.TestCase
