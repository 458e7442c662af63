"""The one function that moves a schedule's state: `fold`.

Every leaf counts in its own unit and keeps the events that counted, each as the leaf sees it (`domain.share`). A leaf
holds once its count has reached what it needs, and then stays so until the whole fires, or a part of the trigger that
minds the clock starts over (`domain.draft`). When the root holds, a job goes out; what it takes with it and what stays
is the schedule's `Consumption`. What stays may fire again at once, so one signal may start several jobs.

A trigger that correlates (`domain.correlation`) accumulates in cells, one for each open key; any other in one cell.

Cost: a signal looks up its leaves by event key and copies the map of accumulations (as many entries as the trigger has
open leaves). Nothing depends on the number of schedules, of open keys, or of events that have counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple, assert_never

from streamsched.domain.accumulation import Accumulation
from streamsched.domain.cell import EMPTY, Cell, next_due
from streamsched.domain.consumption import Consumption
from streamsched.domain.correlation import shares
from streamsched.domain.draft import Draft, Satisfaction, Share
from streamsched.domain.effect import Aside, Effect, Launch, Wake
from streamsched.domain.event import Event, Ticked
from streamsched.domain.job import ReadyJob
from streamsched.domain.kept import kept
from streamsched.domain.lateness import Late, OnLate
from streamsched.domain.names import ScheduleRef
from streamsched.domain.plan import Plan, Slot, planned
from streamsched.domain.signal import Drop, Occurred, Put, Signal, Subscribe, Unsubscribe, Woken
from streamsched.domain.trigger import Trigger
from streamsched.domain.verdict import Judged, Verdict

NO_CELLS: Final[Mapping[str, Cell]] = MappingProxyType({})
DISABLED: Final = Judged(Verdict.DISABLED)
UNMATCHED: Final = Judged(Verdict.UNMATCHED)
LATE: Final = Judged(Verdict.LATE)


@dataclass(frozen=True, slots=True)
class Definition:
    """What judges between one `Put` and the next.

    Attributes:
        enabled: it fires.
        keeping: it is not enabled but counts, and fires when it is enabled again.
        consumption: what firing uses up.
        late: what becomes of late events; None counts them.
        plan: derived from the trigger.
        encoded: kept by the codec once it has written the definition; says nothing of its own.
    """

    schedule: ScheduleRef
    generation: int
    enabled: bool
    trigger: Trigger
    consumption: Consumption = Consumption.CUMULATIVE
    late: Late | None = None
    keeping: bool = False
    plan: Plan = field(default=None, compare=False, repr=False)  # type: ignore[assignment]
    encoded: bytes | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.plan is None:
            object.__setattr__(self, "plan", planned(self.trigger))


@dataclass(frozen=True, slots=True)
class TriggerState:
    """One schedule's definition and accumulation.

    Attributes:
        sequence: how many times this generation has fired; the next job has this number plus one.
        cell: what has come; of a schedule that correlates, see the cells of its keys instead.
        lost: keys that ended incomplete, because they expired or too many were open.
    """

    definition: Definition
    sequence: int = 0
    cell: Cell = EMPTY
    lost: int = 0

    @property
    def schedule(self) -> ScheduleRef:
        return self.definition.schedule

    @property
    def generation(self) -> int:
        return self.definition.generation

    @property
    def enabled(self) -> bool:
        return self.definition.enabled

    @property
    def trigger(self) -> Trigger:
        return self.definition.trigger

    @property
    def consumption(self) -> Consumption:
        return self.definition.consumption

    @property
    def plan(self) -> Plan:
        return self.definition.plan

    @property
    def accumulations(self) -> Mapping[str, Accumulation]:
        """Slot id → what it has; a slot that has nothing is absent."""
        return self.cell.accumulations


class Folded(NamedTuple):
    """What a signal did.

    Attributes:
        state: from here on; the very object that came in when nothing changed.
        effects: what is to be done, in order.
        verdict: of an event, what became of it.
        cells: the keys whose cells changed, and what they are now; None: closed.
    """

    state: TriggerState | None
    effects: tuple[Effect, ...] = ()
    verdict: Judged | None = None
    cells: Mapping[str, Cell | None] = NO_CELLS

    @property
    def jobs(self) -> tuple[ReadyJob, ...]:
        """The jobs among the effects, in order."""
        return tuple(effect.job for effect in self.effects if isinstance(effect, Launch))


def fold(state: TriggerState | None, signal: Signal, *, at: datetime, cells: Mapping[str, Cell] = NO_CELLS) -> Folded:
    """One signal, addressed to the home of this schedule, applied to its state.

    Total and deterministic. `at` (UTC) is the log time of the signal's record, so replay gives the same jobs. `cells`
    are those of the open keys, in order of their opening; they are read, never changed.
    A `Put` or `Drop` older than the known definition changes nothing; neither does a repeated `Put`.
    """
    match signal:
        case Occurred():
            return Folded(None, verdict=DISABLED) if state is None else _occurred(state, signal, at, cells)
        case Woken(cell=key, due_at=due_at):
            return Folded(None) if state is None else _woken(state, key, due_at, max(at, due_at), cells)
        case Put(generation=generation):
            if state is not None and generation <= state.generation:
                return Folded(state)
            return _put(state, signal, at, cells)
        case Drop(generation=generation):
            if state is None or generation < state.generation:
                return Folded(state)
            cancelled = tuple(
                Wake(state.schedule, generation, key, None)
                for key, cell in {"": state.cell, **cells}.items()
                if cell.asked is not None
            )
            return Folded(None, cancelled, cells=dict.fromkeys(cells))
        case Subscribe() | Unsubscribe():
            return Folded(state)
        case _:
            assert_never(signal)


def _occurred(state: TriggerState, signal: Occurred, at: datetime, cells: Mapping[str, Cell]) -> Folded:
    definition, event = state.definition, signal.event
    if not definition.enabled and not definition.keeping:
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
    draft = Draft(plan, state.cell, definition.consumption)
    if plan.watches:
        draft.elapse(at, fires=definition.enabled)
    draft.count([Share(slot, event) for slot in slots], at, fires=definition.enabled)
    if not draft.changed:
        return Folded(state, verdict=UNMATCHED)
    verdict = Judged(Verdict.COUNTED, tuple(draft.counted)) if draft.counted else UNMATCHED
    return _settled(state, draft, state.cell, verdict)


def _settled(state: TriggerState, draft: Draft, before: Cell, verdict: Judged | None) -> Folded:
    """The one cell of a schedule that does not correlate has changed."""
    cell, wakes = _asking(state.definition, "", draft.cell(None, before.asked))
    jobs = _jobs(state, "", draft.satisfactions)
    after = TriggerState(state.definition, state.sequence + len(jobs), cell, state.lost)
    return Folded(after, (*jobs, *wakes), verdict)


def _jobs(state: TriggerState, key: str, satisfactions: list[Satisfaction], before: int = 0) -> tuple[Launch, ...]:
    if not satisfactions:
        return ()
    schedule, generation, sequence = state.schedule, state.generation, state.sequence + before
    return tuple(
        Launch(ReadyJob(schedule, generation, sequence + number, each.at, each.contributions, key))
        for number, each in enumerate(satisfactions, 1)
    )


def _asking(definition: Definition, key: str, cell: Cell) -> tuple[Cell, tuple[Wake, ...]]:
    """The cell that has asked to be woken when it must be. An earlier wake-up that was asked for is let come: it finds
    nothing to do and asks anew, which costs less than asking at every event of a burst.
    """
    if not definition.plan.watches and definition.plan.per is None:
        return cell, ()
    due, asked = next_due(definition.plan, cell), cell.asked
    if due == asked or (due is not None and asked is not None and asked < due):
        return cell, ()
    return cell._replace(asked=due), (Wake(definition.schedule, definition.generation, key, due),)


def _woken(state: TriggerState, key: str, due_at: datetime, at: datetime, cells: Mapping[str, Cell]) -> Folded:
    definition = state.definition
    before = cells.get(key) if definition.plan.per is not None else state.cell
    if before is None or (not definition.plan.watches and definition.plan.per is None):
        return Folded(state)
    if before.asked is not None and before.asked <= due_at:
        before = before._replace(asked=None)
    draft = Draft(definition.plan, before, definition.consumption, key)
    draft.elapse(at, fires=definition.enabled)
    if definition.plan.per is None:
        return _settled(state, draft, before, None)
    return _kept(state, {key: (draft, before)}, at, cells, None)


def _correlated(
    state: TriggerState, event: Event, slots: tuple[Slot, ...], at: datetime, cells: Mapping[str, Cell]
) -> Folded:
    definition = state.definition
    seen: dict[str, list[Share]] = {}
    for slot in slots:
        if slot.per is not None:
            for key, value, part in shares(slot.per, event):
                seen.setdefault(key, []).append(Share(slot, part, value))
    drafts: dict[str, tuple[Draft, Cell]] = {}
    for key, some in seen.items():
        before = cells.get(key)
        if before is not None and _expired(definition, before, at):
            before = None
        before = before or Cell(EMPTY.accumulations, opened_at=at)
        draft = Draft(definition.plan, before, definition.consumption, key)
        draft.elapse(at, fires=definition.enabled)
        draft.count(some, at, fires=definition.enabled)
        drafts[key] = draft, before
    counted = [key for key, (draft, _) in drafts.items() if draft.counted]
    leaves = tuple(dict.fromkeys(leaf for draft, _ in drafts.values() for leaf in draft.counted))
    verdict = Judged(Verdict.COUNTED, leaves, tuple(counted)) if counted else UNMATCHED
    return _kept(state, drafts, at, cells, verdict)


def _expired(definition: Definition, cell: Cell, at: datetime) -> bool:
    per = definition.plan.per
    return per is not None and cell.opened_at is not None and cell.opened_at + per.expires <= at


def _kept(
    state: TriggerState,
    drafts: Mapping[str, tuple[Draft, Cell]],
    at: datetime,
    cells: Mapping[str, Cell],
    verdict: Judged | None,
) -> Folded:
    """Cells of a schedule that correlates have changed: some close, and when too many are open the oldest goes."""
    definition, lost = state.definition, state.lost
    changed: dict[str, Cell | None] = {}
    effects: list[Effect] = []
    jobs = 0
    for key, (draft, before) in drafts.items():
        launches = _jobs(state, key, draft.satisfactions, jobs)
        jobs += len(launches)
        effects += launches
        expired = _expired(definition, before, at)
        lost += expired and not draft.empty
        lost += key in cells and before.opened_at is not cells[key].opened_at  # it opened anew after it had expired
        if draft.empty or expired:
            if key in cells or before.asked is not None:
                changed[key] = None
            if before.asked is not None:
                effects.append(Wake(definition.schedule, definition.generation, key, None))
            continue
        cell, wakes = _asking(definition, key, draft.cell(before.opened_at, before.asked))
        effects += wakes
        changed[key] = cell
    for key in _too_many(definition, cells, changed):
        changed[key] = None
        lost += 1
        effects.append(Wake(definition.schedule, definition.generation, key, None))
    if not changed and not jobs:
        return Folded(state, tuple(effects), verdict)
    after = TriggerState(definition, state.sequence + jobs, state.cell, lost) if jobs or lost != state.lost else state
    return Folded(after, tuple(effects), verdict, changed)


def _too_many(definition: Definition, cells: Mapping[str, Cell], changed: Mapping[str, Cell | None]) -> list[str]:
    per = definition.plan.per
    if per is None:
        return []
    opened = sum(cell is not None and key not in cells for key, cell in changed.items())
    closed = sum(cell is None and key in cells for key, cell in changed.items())
    surplus = len(cells) + opened - closed - per.at_most
    found: list[str] = []
    for key in cells:
        if surplus <= 0:
            break
        if key not in changed:
            found.append(key)
            surplus -= 1
    return found


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
    old = None if state is None else state.definition.plan
    asked = {
        key for key, cell in ({} if state is None else {"": state.cell, **cells}).items() if cell.asked is not None
    }
    changed: dict[str, Cell | None] = dict.fromkeys(cells)
    effects: list[Effect] = []
    after = TriggerState(definition)
    carried: dict[str, Cell] = {} if definition.plan.per is not None else {"": EMPTY}
    if put.keep and state is not None and old is not None:
        carried |= kept(old, definition.plan, {"": state.cell, **cells})
    counting = definition.enabled or definition.keeping
    for key, before in carried.items():
        draft = Draft(definition.plan, before, definition.consumption, key)
        if counting:
            draft.begin(at)
            draft.elapse(at, fires=definition.enabled)
            draft.settle(at, fires=definition.enabled)
        launches = _jobs(after, key, draft.satisfactions)
        effects += launches
        cell = draft.cell(before.opened_at, None)
        wakes: tuple[Wake, ...] = ()
        if counting:
            cell, wakes = _asking(definition, key, cell)
        effects += wakes
        asked -= {wake.cell for wake in wakes}
        open_cell = cell if definition.plan.per is None or not draft.empty else None
        after = TriggerState(definition, after.sequence + len(launches), EMPTY)
        if definition.plan.per is None:
            after = TriggerState(definition, after.sequence, cell)
        elif open_cell is not None or key in cells:
            changed[key] = open_cell
    effects += [Wake(definition.schedule, definition.generation, key, None) for key in sorted(asked)]
    return Folded(after, tuple(effects), cells=changed)
