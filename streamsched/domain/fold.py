"""The one function that moves a schedule's state: `fold`.

Every leaf counts in its own unit and keeps the events that counted, each as the leaf sees it (`domain.share`). A leaf
holds once its count has reached what it needs, and then stays so until the whole fires, or a part of the trigger that
minds the clock starts over (`domain.draft`). When the root holds, a job goes out; what it takes with it and what stays
is the schedule's `Consumption`. What stays may fire again at once, so one signal may start several jobs.

A trigger that correlates (`domain.correlation`) accumulates in cells, one for each open key (`domain.keys`); any other
in one cell.

Cost: a signal looks up its leaves by event key and copies the map of accumulations (as many entries as the trigger has
open leaves). Nothing depends on the number of schedules, of open keys, or of events that have counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, assert_never

from streamsched.domain.accumulation import NOTHING, Accumulation, added, renewed
from streamsched.domain.cell import EMPTY, Cell
from streamsched.domain.consumption import Consumption
from streamsched.domain.correlation import shares
from streamsched.domain.draft import Draft, Share
from streamsched.domain.effect import Aside, Launch, Wake
from streamsched.domain.event import Event, Ticked
from streamsched.domain.kept import kept
from streamsched.domain.keys import OpenKeys
from streamsched.domain.lateness import OnLate
from streamsched.domain.plan import Slot
from streamsched.domain.signal import Drop, Occurred, Put, Replay, Signal, Subscribe, Unsubscribe, Woken
from streamsched.domain.state import NO_CELLS, Definition, Folded, TriggerState, asking, launches
from streamsched.domain.verdict import Judged, Verdict

__all__ = ["NO_CELLS", "Definition", "Folded", "TriggerState", "fold"]

DISABLED: Final = Judged(Verdict.DISABLED)
UNMATCHED: Final = Judged(Verdict.UNMATCHED)
LATE: Final = Judged(Verdict.LATE)


def fold(state: TriggerState | None, signal: Signal, *, at: datetime, cells: Mapping[str, Cell] = NO_CELLS) -> Folded:
    """One signal, addressed to the home of this schedule, applied to its state.

    Total and deterministic. `at` (UTC) is the log time of the signal's record, so replay gives the same jobs. `cells`
    are those of the open keys, in order of their opening; they are read, never changed.
    A `Put` or `Drop` older than the known definition changes nothing; neither does a repeated `Put`, unless it knows of
    jobs of this generation that the state does not: then numbers go on from those. One that is newer comes after
    whatever was due before it: that fires under the old definition.
    """
    match signal:
        case Occurred():
            return Folded(None, verdict=DISABLED) if state is None else _occurred(state, signal, at, cells)
        case Woken(cell=key, due_at=due_at):
            return Folded(None) if state is None else _woken(state, key, due_at, max(at, due_at), cells)
        case Put(generation=generation):
            if state is not None and generation <= state.generation:
                behind = generation == state.generation and state.sequence < signal.started
                return Folded(state._replace(sequence=signal.started) if behind else state)
            return _put(state, signal, at, cells)
        case Drop(generation=generation):
            if state is None or generation < state.generation:
                return Folded(state)
            _, jobs, _ = _passed(state, at, cells)
            return Folded(None, (*jobs, *_cancelled(state, cells)), cells=dict.fromkeys(cells))
        case Subscribe() | Unsubscribe() | Replay():
            return Folded(state)
        case _:
            assert_never(signal)


def _occurred(state: TriggerState, signal: Occurred, at: datetime, cells: Mapping[str, Cell]) -> Folded:
    definition, event = state.definition, signal.event
    if not definition.counts:
        return Folded(state, verdict=DISABLED)
    plan = definition.plan
    fact = event.fact
    if isinstance(fact, Ticked):
        slots = plan.by_tick.get(fact.leaf, ()) if fact.generation == definition.generation else ()
    else:
        slots = plan.by_key.get(event.key, ())
        late = definition.late
        if slots and late is not None and late.then is not OnLate.ACCEPT and late.judges(signal.delay):
            return Folded(state, (Aside(event),) if late.then is OnLate.SIDE else (), LATE)
    if not slots:
        return Folded(state, verdict=UNMATCHED)
    if plan.per is not None:
        return _correlated(state, event, slots, at, cells)
    if not plan.watches:
        return _timeless(state, event, slots, at)
    draft = Draft(plan, state.cell, definition.consumption)
    draft.elapse(at, fires=definition.enabled)
    draft.count([Share(slot, event) for slot in slots], at, fires=definition.enabled)
    if not draft.changed:
        return Folded(state, verdict=UNMATCHED)
    verdict = Judged(Verdict.COUNTED, tuple(draft.counted)) if draft.counted else UNMATCHED
    return _settled(state, draft, state.cell, verdict)


def _timeless(state: TriggerState, event: Event, slots: tuple[Slot, ...], at: datetime) -> Folded:
    """As a draft would do it, for the many triggers that mind no clock: nothing is copied unless something counts."""
    definition, cell = state.definition, state.cell
    consumption = definition.consumption
    before, held = cell.accumulations, cell.held
    after: dict[str, Accumulation] | None = None
    verdict = UNMATCHED
    for slot in slots:
        had = before.get(slot.id, NOTHING)
        has = added(had, slot, event, consumption)
        if has is had:
            continue
        if has.count >= slot.needed:
            held |= slot.bit
            if consumption is Consumption.LATEST:
                has = renewed(has, slot, slot.needed)
        if after is None:
            after, verdict = dict(before), slot.counted
        else:
            verdict = Judged(Verdict.COUNTED, (*verdict.leaves, slot.leaf))
        after[slot.id] = has
    if after is None:
        return Folded(state, (), UNMATCHED)
    now = Cell(after, held)
    if held != cell.held and definition.enabled and definition.plan.root.holds(held):
        draft = Draft(definition.plan, now, consumption)
        draft.settle(at, fires=True)
        return _settled(state, draft, now, verdict)
    return Folded(TriggerState(definition, state.sequence, now, state.lost), (), verdict)


def _settled(state: TriggerState, draft: Draft, before: Cell, verdict: Judged | None) -> Folded:
    """The one cell of a schedule that does not correlate has changed."""
    cell, wakes = asking(state.definition, "", draft.cell(before))
    jobs = launches(state, "", draft.satisfactions)
    after = TriggerState(state.definition, state.sequence + len(jobs), cell, state.lost)
    return Folded(after, (*jobs, *wakes), verdict)


def _woken(state: TriggerState, key: str, due_at: datetime, at: datetime, cells: Mapping[str, Cell]) -> Folded:
    plan = state.plan
    before = cells.get(key) if plan.per is not None else state.cell
    if before is None or (not plan.watches and plan.per is None):
        return Folded(state)
    answered = before.asked is not None and before.asked <= due_at
    before = before._replace(asked=None) if answered else before
    if plan.per is not None:
        keys = OpenKeys(state, at, cells)
        keys.settle(key, before, keys.elapse(key, before))
        return keys.folded()
    draft = Draft(plan, before, state.consumption)
    draft.elapse(at, fires=state.enabled)
    return _settled(state, draft, before, None) if answered or draft.changed else Folded(state)


def _correlated(
    state: TriggerState, event: Event, slots: tuple[Slot, ...], at: datetime, cells: Mapping[str, Cell]
) -> Folded:
    seen: dict[str, list[Share]] = {}
    for slot in slots:
        if slot.per is not None:
            for key, value, part in shares(slot.per, event):
                seen.setdefault(key, []).append(Share(slot, part, value))
    keys = OpenKeys(state, at, cells)
    counted = {key: leaves for key, some in seen.items() if (leaves := keys.count(key, some))}
    keys.make_room()
    if not counted:
        return keys.folded(UNMATCHED)
    leaves = tuple(dict.fromkeys(leaf for some in counted.values() for leaf in some))
    return keys.folded(Judged(Verdict.COUNTED, leaves, tuple(counted)))


def _passed(
    state: TriggerState, at: datetime, cells: Mapping[str, Cell]
) -> tuple[TriggerState, tuple[Launch, ...], Mapping[str, Cell]]:
    """The state and its cells when time has passed for all of them, and the jobs that this starts."""
    if not state.definition.counts:
        return state, (), cells
    if state.plan.per is None:
        draft = Draft(state.plan, state.cell, state.consumption)
        draft.elapse(at, fires=state.enabled)
        after = _settled(state, draft, state.cell, None)
    else:
        keys = OpenKeys(state, at, cells)
        for key, cell in cells.items():
            keys.settle(key, cell, keys.elapse(key, cell))
        after = keys.folded()
    left = {key: now for key in cells if (now := after.cells.get(key)) is not None}
    jobs = tuple(effect for effect in after.effects if isinstance(effect, Launch))
    return after.state or state, jobs, left


def _cancelled(state: TriggerState | None, cells: Mapping[str, Cell]) -> tuple[Wake, ...]:
    """No wake-up that was asked for is wanted any more."""
    if state is None:
        return ()
    return tuple(
        Wake(state.schedule, state.generation, key, None)
        for key, cell in {"": state.cell, **cells}.items()
        if cell.asked is not None
    )


def _put(state: TriggerState | None, put: Put, at: datetime, cells: Mapping[str, Cell]) -> Folded:
    definition = Definition(
        put.schedule,
        put.generation,
        put.enabled,
        put.trigger,
        put.consumption,
        put.late,
        put.keep and not put.enabled,
    )
    jobs: tuple[Launch, ...] = ()
    carried: Mapping[str, Cell] = {}
    if state is not None:
        passed, jobs, left = _passed(state, at, cells)
        if put.keep:
            carried = kept(passed.definition, definition, {"": passed.cell, **left})
    after = _begun(TriggerState(definition, put.started), carried, at)
    asked = {effect.cell for effect in after.effects if isinstance(effect, Wake)}
    cancelled = (
        Wake(wake.schedule, definition.generation, wake.cell, None)
        for wake in _cancelled(state, cells)
        if wake.cell not in asked
    )
    return Folded(after.state, (*jobs, *after.effects, *cancelled), cells={**dict.fromkeys(cells), **after.cells})


def _begun(state: TriggerState, carried: Mapping[str, Cell], at: datetime) -> Folded:
    """A definition comes into force, with what it goes on from."""
    definition, plan, fires = state.definition, state.plan, state.enabled
    keys = OpenKeys(state, at, {})
    for key, cell in carried.items() if plan.per is not None else [("", carried.get("", EMPTY))]:
        draft = Draft(plan, cell, definition.consumption, key)
        if definition.counts:
            draft.begin(at)
            draft.settle(at, fires=fires)
        if plan.per is None:
            return _settled(state, draft, cell, None)
        keys.settle(key, cell, draft)
    keys.make_room()
    return keys.folded()
