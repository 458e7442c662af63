"""Accumulation: what a schedule has seen since it last fired, and the one function that moves it.

Every leaf counts in its own unit and keeps the events that counted, each as the leaf sees it (`domain.share`). A leaf
holds once its count has reached what it needs, and then stays so until the whole fires. When the root holds, a job goes
out; what it takes with it and what stays is the schedule's `Consumption`. What stays may fire again at once, so one
signal may start several jobs, up to `JOBS_AT_ONCE`; the last of so many takes everything with it.

Streams: a delta adds. An absolute report adds its growth over the known level; the first one is only the baseline; a
smaller one means the stream was truncated, and all it now holds is new. A satisfaction keeps levels, a new definition
does not.

Cost: a signal looks up its leaves by event key, copies the map of accumulations (as many entries as the trigger has
open leaves) and appends to the tuple of events of each leaf it counts in, which copies as many pointers as that leaf
has events. Nothing depends on the number of schedules, and the events themselves are shared, never copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, assert_never

from streamsched.domain.consumption import Consumption
from streamsched.domain.effect import Effect, Launch
from streamsched.domain.event import CustomHappened, Event, PartitionsAdded, ProgramReached, StreamSize, Ticked
from streamsched.domain.job import Contribution, ReadyJob
from streamsched.domain.names import ScheduleRef
from streamsched.domain.plan import Plan, Slot, planned
from streamsched.domain.share import grown, measured, narrowed, newest, oldest
from streamsched.domain.signal import Drop, Occurred, Put, Signal, Subscribe, Unsubscribe, Woken
from streamsched.domain.trigger import Trigger
from streamsched.domain.verdict import Judged, Verdict

#: Counts and levels stop growing here, the largest whole number every store and dialect can hold.
LIMIT: Final = 2**63 - 1
#: As many jobs as one signal can start. A stream that grew by a terabyte where ten bytes were asked for is a mistake.
JOBS_AT_ONCE: Final = 1000

DISABLED: Final = Judged(Verdict.DISABLED)
UNMATCHED: Final = Judged(Verdict.UNMATCHED)


@dataclass(frozen=True, slots=True)
class Accumulation:
    """What one leaf has.

    Attributes:
        count: in the leaf's unit (partitions, bytes, times), since the last satisfaction.
        level: the stream's size as last known, in bytes; None for other leaves and before a first absolute report.
        events: those that counted, in order of arrival.
    """

    count: int = 0
    level: int | None = None
    events: tuple[Event, ...] = ()


NOTHING: Final = Accumulation()


@dataclass(frozen=True, slots=True)
class TriggerState:
    """One schedule's accumulation.

    Attributes:
        generation: of the definition that judges.
        sequence: how many times this generation has fired; the next job has this number plus one.
        consumption: what firing uses up.
        accumulations: leaf id → what it has; a leaf that has nothing is absent.
        plan, held: derived from the others; `held` has the bit of each leaf that holds.
    """

    schedule: ScheduleRef
    generation: int
    enabled: bool
    trigger: Trigger
    sequence: int = 0
    accumulations: Mapping[str, Accumulation] = field(default_factory=dict)
    consumption: Consumption = Consumption.CUMULATIVE
    plan: Plan = field(default=None, compare=False, repr=False)  # type: ignore[assignment]
    held: int = field(default=-1, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.plan is None:
            object.__setattr__(self, "plan", planned(self.trigger))
        if self.held < 0:
            object.__setattr__(self, "held", _held(self.plan, self.accumulations))


@dataclass(frozen=True, slots=True)
class Folded:
    """The state from here on (the very object that came in when nothing changed), what is to be done, and of an event
    what became of it.
    """

    state: TriggerState | None
    effects: tuple[Effect, ...] = ()
    verdict: Judged | None = None

    @property
    def jobs(self) -> tuple[ReadyJob, ...]:
        """The jobs among the effects, in order."""
        return tuple(effect.job for effect in self.effects if isinstance(effect, Launch))


def _held(plan: Plan, have: Mapping[str, Accumulation]) -> int:
    return sum(slot.bit for slot in plan.slots if slot.id in have and have[slot.id].count >= slot.needed)


def fold(state: TriggerState | None, signal: Signal, *, at: datetime) -> Folded:
    """One signal, addressed to the home of this schedule, applied to its state.

    Total and deterministic. `at` (UTC) is the log time of the signal's record, so replay gives the same jobs.
    A `Put` or `Drop` older than the known definition changes nothing; neither does a repeated `Put`.
    """
    match signal:
        case Occurred(event=event):
            return Folded(None, verdict=DISABLED) if state is None else _count(state, event, at)
        case Put(generation=generation):
            if state is not None and generation <= state.generation:
                return Folded(state)
            new = TriggerState(signal.schedule, generation, signal.enabled, signal.trigger)
            return Folded(
                new if signal.consumption is new.consumption else replace(new, consumption=signal.consumption)
            )
        case Drop(generation=generation):
            return Folded(state if state is not None and generation < state.generation else None)
        case Subscribe() | Unsubscribe() | Woken():
            return Folded(state)
        case _:
            assert_never(signal)


def _count(state: TriggerState, event: Event, at: datetime) -> Folded:
    if not state.enabled:
        return Folded(state, verdict=DISABLED)
    slots = _listening(state, event)
    if not slots:
        return Folded(state, verdict=UNMATCHED)
    before = state.accumulations
    after: dict[str, Accumulation] | None = None
    held = state.held
    consumption = state.consumption
    counted: list[str] = []
    for slot in slots:
        had = before.get(slot.id, NOTHING)
        has = _added(had, slot, event, consumption)
        if has is had:
            continue
        if consumption is Consumption.LATEST and has.count >= slot.needed:
            has = _renewed(has, slot)
        if after is None:
            after = dict(before)
        after[slot.id] = has
        counted.append(slot.id)
        if has.count >= slot.needed:
            held |= slot.bit
    if after is None:
        return Folded(state, verdict=UNMATCHED)
    verdict = Judged(Verdict.COUNTED, tuple(counted))
    if held != state.held and state.plan.root.holds(held):
        return _fire(state, after, held, at, verdict)
    return Folded(
        TriggerState(
            state.schedule,
            state.generation,
            state.enabled,
            state.trigger,
            state.sequence,
            after,
            state.consumption,
            state.plan,
            held,
        ),
        verdict=verdict,
    )


def _listening(state: TriggerState, event: Event) -> tuple[Slot, ...]:
    fact = event.fact
    if isinstance(fact, Ticked):
        return state.plan.by_tick.get(fact.leaf, ()) if fact.generation == state.generation else ()
    return state.plan.by_key.get(event.key, ())


def _added(had: Accumulation, slot: Slot, event: Event, consumption: Consumption) -> Accumulation:
    """`had` with what the leaf sees of the event counted; `had` itself when the event says nothing new to it."""
    fact = event.fact
    level = had.level
    match fact:
        case PartitionsAdded(count=amount) if slot.plain:
            pass
        case PartitionsAdded():
            event, fact = narrowed(event, fact, slot.match)
            amount = measured(fact, slot.measure)
        case CustomHappened(attributes=attributes):
            amount = int(slot.plain or slot.match.accepts(attributes))
        case ProgramReached() | Ticked():
            amount = 1
        case StreamSize(bytes=size, absolute=True):
            growth = 0 if level is None else size - level
            amount = growth if growth >= 0 else size
            level = size
            if consumption is not Consumption.CUMULATIVE:  # it may be cut
                event = grown(event, fact, amount)
        case StreamSize(bytes=amount):
            if level is not None and amount > 0:
                level = min(level + amount, LIMIT)
        case _:
            assert_never(fact)
    if amount > 0:
        count = had.count + amount
        return Accumulation(count if count < LIMIT else LIMIT, level, (*had.events, event))
    return had if level == had.level else Accumulation(had.count, level, had.events)


def _renewed(has: Accumulation, slot: Slot) -> Accumulation:
    """Without the oldest that the leaf no longer needs."""
    dropped, events = newest(has.events, has.count - slot.needed, slot.measure)
    return Accumulation(has.count - dropped, has.level, events)


def _fire(
    state: TriggerState, accumulations: Mapping[str, Accumulation], held: int, at: datetime, verdict: Judged
) -> Folded:
    """Jobs until the trigger holds no more, and what is left then."""
    plan, left, told = state.plan, dict(accumulations), list[tuple[Contribution, ...]]()
    if state.consumption is Consumption.PAIRED:
        while len(told) < JOBS_AT_ONCE - 1 and plan.root.holds(held):
            told.append(_taken(plan, left, plan.root.used(held)))
            held = _held(plan, left)
    if plan.root.holds(held):
        told.append(_everything(plan, left))
        left = {name: Accumulation(0, has.level) for name, has in left.items() if has.level is not None}
        held = 0
    schedule, generation, sequence = state.schedule, state.generation, state.sequence
    jobs = tuple(Launch(ReadyJob(schedule, generation, sequence + n, at, each)) for n, each in enumerate(told, 1))
    rest = TriggerState(
        schedule,
        generation,
        state.enabled,
        state.trigger,
        sequence + len(jobs),
        left,
        state.consumption,
        plan,
        held,
    )
    return Folded(rest, jobs, verdict)


def _everything(plan: Plan, left: Mapping[str, Accumulation]) -> tuple[Contribution, ...]:
    return tuple(
        Contribution(slot.id, has.count, has.events)
        for slot in plan.slots
        if (has := left.get(slot.id)) is not None and has.events
    )


def _taken(plan: Plan, left: dict[str, Accumulation], used: int) -> tuple[Contribution, ...]:
    """Takes out of `left`, of each leaf that is used, its oldest, as much as it needs."""
    told: list[Contribution] = []
    for slot in plan.slots:
        if not used & slot.bit:
            continue
        has = left[slot.id]
        amount, events, rest = oldest(has.events, slot.needed, slot.measure)
        told.append(Contribution(slot.id, amount, events))
        left[slot.id] = Accumulation(max(0, has.count - amount) if rest else 0, has.level, rest)
        if left[slot.id] == NOTHING:
            del left[slot.id]
    return tuple(told)
