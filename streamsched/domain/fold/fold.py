"""The one function that moves a schedule's state: `fold`.

Every leaf counts in its own unit and keeps the events that counted, each reduced to the part that counts
(`domain.triggers.event_slice`). A leaf holds once its count reaches what it needs, until the whole trigger fires or a
timed node around it starts over (`domain.fold.cell_update`). When the root holds, a job is launched; the schedule's
`Consumption` says what the job takes and what remains. The remainder may fire again at once, so one signal may start
several jobs.

A trigger that correlates (`domain.triggers.correlation`) accumulates in cells, one for each open key
(`domain.fold.open_keys`); any other in one cell.

Cost: a signal looks up its leaves by event key and copies the map of accumulations (as many entries as the trigger has
open leaves), once for each correlation key of the event (at most `KEYS_AT_ONCE`). The cost does not depend on the
number of schedules, open keys, or counted events.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sized
from dataclasses import replace
from datetime import datetime
from typing import Final, assert_never

from streamsched.domain.events.event import Event, Ticked
from streamsched.domain.events.lateness import OnLate
from streamsched.domain.events.match import Match
from streamsched.domain.fold.accumulation import NOTHING, Accumulation, add_event, adds, drop_surplus
from streamsched.domain.fold.cell import EMPTY, Cell
from streamsched.domain.fold.cell_update import CellUpdate, LeafEvent
from streamsched.domain.fold.effect import LateEvent, Launch, Refuse, Wake
from streamsched.domain.fold.kept_state import keep_cells
from streamsched.domain.fold.open_keys import OpenKeys
from streamsched.domain.fold.plan import LeafSlot
from streamsched.domain.fold.state import NO_CELLS, Definition, Folded, TriggerState, launches, with_wakes
from streamsched.domain.signals.signal import Drop, Occurred, Put, Replay, Signal, Subscribe, Unsubscribe, Woken
from streamsched.domain.signals.verdict import CELLS_NAMED, JudgedEvent, Verdict
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.correlation import KEYS_AT_ONCE, OnFull
from streamsched.domain.triggers.keyed_event import KeyedEvent, WithoutKey, keyed_event, without_key
from streamsched.domain.triggers.run_keys import too_many_runs_reason, why_no_run

__all__ = ["NO_CELLS", "Definition", "Folded", "TriggerState", "fold"]

DISABLED: Final = JudgedEvent(Verdict.DISABLED)
UNMATCHED: Final = JudgedEvent(Verdict.UNMATCHED)
LATE: Final = JudgedEvent(Verdict.LATE)
#: On the statistics of a commit that came before.
NOT_TOTALLED: Final = JudgedEvent(
    Verdict.UNMATCHED, why="it brings bytes and rows of a commit that came before, and no leaf adds those up"
)

#: Most dropped keys named in a verdict.
_DROPPED_NAMED: Final = 10


def fold(state: TriggerState | None, signal: Signal, *, at: datetime, cells: Mapping[str, Cell] = NO_CELLS) -> Folded:
    """Applies one signal, addressed to this schedule's home, to its state.

    Total and deterministic. `at` (UTC) is the log time of the signal's record, so replay gives the same jobs. `cells`
    are those of the open keys, in order of their opening; they are not changed.
    A `Put` or `Drop` older than the known definition changes nothing. Neither does a repeated `Put`, except that a
    larger `started` raises the sequence. Before a newer one takes effect, whatever was due fires under the old
    definition.
    """
    match signal:
        case Occurred():
            if state is None:
                return Folded(None, verdict=DISABLED)
            folded = _in_trace(_fold_event(state, signal, at, cells), signal.event.traceparent, at)
            return _add_remark(folded) if signal.statistics else folded
        case Woken(cell=key, due_at=due_at):
            return Folded(None) if state is None else _fold_wake(state, key, due_at, max(at, due_at), cells)
        case Put(generation=generation):
            if state is not None and generation <= state.generation:
                behind = generation == state.generation and state.sequence < signal.started
                return Folded(state._replace(sequence=signal.started) if behind else state)
            return _put_definition(state, signal, at, cells)
        case Drop(generation=generation):
            if state is None or generation < state.generation:
                return Folded(state)
            _, jobs, _ = _pass_time(state, at, cells)
            return Folded(None, (*jobs, *_cancel_wakes(state, cells)), cells=dict.fromkeys(cells))
        case Subscribe() | Unsubscribe() | Replay():
            return Folded(state)
        case _:
            assert_never(signal)


def _fold_event(state: TriggerState, signal: Occurred, at: datetime, cells: Mapping[str, Cell]) -> Folded:
    definition, event = state.definition, signal.event
    if not definition.counts:
        return Folded(state, verdict=DISABLED)
    plan = definition.plan
    fact = event.fact
    if isinstance(fact, Ticked):
        void = fact.after is not None and fact.after < state.latest_job  # a later job waits or runs
        slots = plan.by_tick.get(fact.leaf, ()) if fact.generation == definition.generation and not void else ()
    else:
        slots = plan.by_key.get(event.key, ())
        late = definition.late
        if slots and late is not None and late.then is not OnLate.ACCEPT and late.judges(signal.delay):
            return Folded(state, (LateEvent(event),) if late.then is OnLate.SIDE_OUTPUT else (), LATE)
        if slots and signal.statistics:
            slots = tuple(slot for slot in slots if slot.measure is not None)
            if not slots:
                return Folded(state, verdict=NOT_TOTALLED)
    if not slots:
        return Folded(state, verdict=UNMATCHED)
    if plan.per is not None:
        return _fold_correlated(state, signal, slots, at, cells)
    if not plan.timed_nodes:
        return _fold_timeless(state, event, slots, at)
    update = CellUpdate(plan, state.cell, definition.consumption)
    update.elapse(at, fires=state.fires)
    update.count([LeafEvent(slot, event) for slot in slots], at, fires=state.fires)
    if not update.changed:
        return Folded(state, verdict=UNMATCHED)
    counted = Verdict.REPLACED if update.replaced else Verdict.COUNTED
    verdict = JudgedEvent(counted, tuple(update.counted)) if update.counted else UNMATCHED
    return _finish_cell(state, update, state.cell, verdict)


def _in_trace(folded: Folded, traceparent: str | None, at: datetime) -> Folded:
    """The jobs that the event satisfied are in its trace; not those that time had satisfied before it."""
    if traceparent is None or not folded.effects:
        return folded
    effects = tuple(
        Launch(replace(each.job, traceparent=traceparent))
        if isinstance(each, Launch) and each.job.satisfied_at == at
        else each
        for each in folded.effects
    )
    return folded._replace(effects=effects)


def _add_remark(folded: Folded) -> Folded:
    """The verdict on statistics says that their commit came before."""
    verdict = folded.verdict
    if verdict is None or not verdict.leaves:
        return folded
    return folded._replace(verdict=verdict.with_remarks("the bytes and rows of a commit that came before", verdict.why))


def _fold_timeless(state: TriggerState, event: Event, slots: tuple[LeafSlot, ...], at: datetime) -> Folded:
    """Same result as a `CellUpdate`, faster: for triggers without timed nodes nothing is copied until a leaf counts."""
    definition, cell = state.definition, state.cell
    consumption = definition.consumption
    before, held = cell.accumulations, cell.held
    after: dict[str, Accumulation] | None = None
    verdict, adding = UNMATCHED, False
    for slot in slots:
        had = before.get(slot.id, NOTHING)
        has = add_event(had, slot, event, consumption)
        if has is had:
            continue
        adding = adding or adds(has, had, slot)
        if has.count >= slot.needed:
            held |= slot.bit
            if consumption is Consumption.LATEST:
                has = drop_surplus(has, slot, slot.needed)
        if after is None:
            after, verdict = dict(before), slot.counted
        else:
            verdict = JudgedEvent(Verdict.COUNTED, (*verdict.leaves, slot.leaf))
        after[slot.id] = has
    if after is None:
        return Folded(state, (), UNMATCHED)
    if not adding:
        verdict = JudgedEvent(Verdict.REPLACED, verdict.leaves)
    now = Cell(after, held)
    if held != cell.held and state.fires and definition.plan.root.holds(held):
        update = CellUpdate(definition.plan, now, consumption)
        update.settle(at, fires=True)
        return _finish_cell(state, update, now, verdict)
    return Folded(TriggerState(definition, state.sequence, now, state.lost), (), verdict)


def _finish_cell(state: TriggerState, update: CellUpdate, before: Cell, verdict: JudgedEvent | None) -> Folded:
    """The result of an update of the single cell of a schedule that does not correlate."""
    cell, wakes = with_wakes(state.definition, "", update.cell(before))
    jobs = launches(state, "", update.satisfactions)
    after = TriggerState(state.definition, state.sequence + len(jobs), cell, state.lost)
    return Folded(after, (*jobs, *wakes), verdict)


def _fold_wake(state: TriggerState, key: str, due_at: datetime, at: datetime, cells: Mapping[str, Cell]) -> Folded:
    plan = state.plan
    before = cells.get(key) if plan.per is not None else state.cell
    if before is None or (not plan.timed_nodes and plan.per is None):
        return Folded(state)
    answered = before.asked is not None and before.asked <= due_at
    before = before._replace(asked=None) if answered else before
    if plan.per is not None:
        keys = OpenKeys(state, at, cells)
        keys.pass_time(key, before)
        return keys.result()
    update = CellUpdate(plan, before, state.consumption)
    update.elapse(at, fires=state.fires)
    return _finish_cell(state, update, before, None) if answered or update.changed else Folded(state)


def _fold_correlated(
    state: TriggerState, signal: Occurred, slots: tuple[LeafSlot, ...], at: datetime, cells: Mapping[str, Cell]
) -> Folded:
    """Counts an event under all of its correlation keys, or refuses it under all."""
    event = signal.event
    seen: dict[str, list[LeafEvent]] = {}
    heard: list[tuple[Match, KeyedEvent]] = []
    run_of = None if state.plan.per is None else state.plan.per.run_of
    if why := too_many_runs_reason(run_of, event):
        return _refuse(state, why)
    for slot in slots:
        if slot.per is not None:
            keyed = keyed_event(slot.per, event, most=KEYS_AT_ONCE)
            heard.append((slot.match, keyed))
            for number, (key, part, some) in enumerate(keyed.slices(), 1):
                seen.setdefault(key, []).append(LeafEvent(slot, some, part))
                if number > KEYS_AT_ONCE:
                    return _refuse(state, f"it has more than {KEYS_AT_ONCE} correlation keys, the most of one event")
    keys = OpenKeys(state, at, cells, statistics=signal.statistics)
    counted = {key: leaves for key, some in seen.items() if (leaves := keys.count(key, some))}
    per = state.plan.per
    if per is not None and per.full is OnFull.DROP_OLDEST:
        keys.drop_oldest()
    elif per is not None and keys.growth > 0 and (surplus := keys.surplus()):
        return _refuse(
            state,
            f"{per.at_most} correlation keys may be open (`at_most`); {len(cells)} were, and it would have opened "
            f"{surplus} too many",
        )
    missing = without_key(heard)
    if missing is not None and not signal.statistics:  # the commit was one without a key when it came
        keys.without_key(missing.why)
    corrected = keys.corrected
    if not counted and not corrected:
        why = keys.outdated or why_no_run(run_of, event) or ("" if missing is None else str(missing))
        return keys.result(JudgedEvent(Verdict.UNMATCHED, why=why) if why else UNMATCHED)
    leaves = tuple(dict.fromkeys(leaf for some in counted.values() for leaf in some))
    verdict = Verdict.COUNTED if keys.adding else Verdict.REPLACED
    if not counted.keys() - corrected.keys():
        verdict = Verdict.CORRECTION
    named = (*counted, *(key for key in corrected if key not in counted))
    remarks = filter(None, (_corrections(corrected, counted), _remark(named, keys, missing)))
    return keys.result(JudgedEvent(verdict, leaves, named[:CELLS_NAMED], "; ".join(remarks)))


def _corrections(corrected: Mapping[str, str], counted: Container[str]) -> str:
    """Which jobs the event corrects, and that no job is made of it where that is so."""
    if not corrected:
        return ""
    key, job = next(iter(corrected.items()))
    more = f" and {len(corrected) - 1} more" if len(corrected) > 1 else ""
    ignored = "" if key in counted else ", which is ignored"
    return f"corrects {job} of key {key}{more}{ignored}"


def _refuse(state: TriggerState, why: str) -> Folded:
    """The event is not counted; only `refused` grows."""
    return Folded(state._replace(refused=state.refused + 1), (Refuse(why),), JudgedEvent(Verdict.REFUSED, why=why))


def _remark(counted: Sized, keys: OpenKeys, missing: WithoutKey | None) -> str:
    """The verdict's remark: the number of keys when not all are named, the keys dropped, what a rerun changed, and what
    has no key.
    """
    dropped, parts = keys.dropped_keys, [f"{len(counted)} keys in all"] if len(counted) > CELLS_NAMED else []
    if dropped:
        named = ", ".join(dropped[:_DROPPED_NAMED]) + (", …" if len(dropped) > _DROPPED_NAMED else "")
        parts.append(f"dropped the keys open longest, too many were open: {len(dropped)} ({named})")
    if keys.replaced:
        parts.append(f"took the place of what earlier runs of the rerun job led to, under {len(keys.replaced)} keys")
    if keys.outdated:
        parts.append(keys.outdated)
    if missing is not None:
        parts.append(str(missing))
    return "; ".join(parts)


def _pass_time(
    state: TriggerState, at: datetime, cells: Mapping[str, Cell]
) -> tuple[TriggerState, tuple[Launch, ...], Mapping[str, Cell]]:
    """The state and cells after everything due up to `at`, and the jobs this starts."""
    if not state.definition.keeps:
        return state, (), cells
    if state.plan.per is None:
        update = CellUpdate(state.plan, state.cell, state.consumption)
        update.elapse(at, fires=state.fires)
        after = _finish_cell(state, update, state.cell, None)
    else:
        keys = OpenKeys(state, at, cells)
        for key, cell in cells.items():
            keys.pass_time(key, cell)
        after = keys.result()
    left = {key: now for key in cells if (now := after.cells.get(key)) is not None}
    jobs = tuple(effect for effect in after.effects if isinstance(effect, Launch))
    return after.state or state, jobs, left


def _cancel_wakes(state: TriggerState | None, cells: Mapping[str, Cell]) -> tuple[Wake, ...]:
    """Cancels all requested wake-ups."""
    if state is None:
        return ()
    return tuple(
        Wake(state.schedule, state.generation, key, None)
        for key, cell in {"": state.cell, **cells}.items()
        if cell.asked is not None
    )


def _put_definition(state: TriggerState | None, put: Put, at: datetime, cells: Mapping[str, Cell]) -> Folded:
    definition = Definition(
        put.schedule,
        put.generation,
        put.enabled,
        put.trigger,
        put.consumption,
        put.late,
        put.keep and not put.enabled,
        put.draining,
        put.backlog,
    )
    jobs: tuple[Launch, ...] = ()
    carried: Mapping[str, Cell] = {}
    if state is not None:
        passed, jobs, left = _pass_time(state, at, cells)
        if put.keep and definition.plan.has_since_last_run:
            definition = replace(definition, former=passed.latest_job)
        if put.keep:
            carried = keep_cells(passed.definition, definition, {"": passed.cell, **left})
    after = _begin_definition(TriggerState(definition, put.started), carried, at)
    asked = {effect.cell for effect in after.effects if isinstance(effect, Wake)}
    cancelled = (
        Wake(wake.schedule, definition.generation, wake.cell, None)
        for wake in _cancel_wakes(state, cells)
        if wake.cell not in asked
    )
    return Folded(after.state, (*jobs, *after.effects, *cancelled), cells={**dict.fromkeys(cells), **after.cells})


def _begin_definition(state: TriggerState, carried: Mapping[str, Cell], at: datetime) -> Folded:
    """A new definition takes effect, starting from the cells carried over."""
    definition, plan, fires = state.definition, state.plan, state.fires
    keys = OpenKeys(state, at, {})
    for key, cell in carried.items() if plan.per is not None else [("", carried.get("", EMPTY))]:
        update = CellUpdate(plan, cell, definition.consumption, key)
        if definition.draining:
            update.stop_silences()
        elif definition.counts:
            update.begin(at)
        if definition.keeps:
            update.settle(at, fires=fires)
        if plan.per is None:
            return _finish_cell(state, update, cell, None)
        if cell.finished is None:
            keys.settle(key, cell, update)
        else:
            keys.pass_time(key, cell)
    if plan.per is not None and plan.per.full is OnFull.DROP_OLDEST:
        keys.drop_oldest()
    return keys.result()
