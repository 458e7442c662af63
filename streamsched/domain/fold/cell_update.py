"""The update of a cell by one signal: time passes, an event counts, timed nodes settle, and a trigger that holds fires.

Time first: what was due before the event is evaluated before it counts, as of the instant it was due. So a wake-up that
arrives late, twice or not at all changes no decision, only when the decision becomes visible. Nodes due at the same
instant are evaluated together, inner nodes first; only then does the trigger fire.

A timed node settles after the nodes inside it: it starts its clock, holds, or starts over. `within` and `then` start
over when their time has run out, `unless` when its veto holds; starting over drops the counts of the leaves inside.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple, assert_never

from streamsched.domain.events.event import Event
from streamsched.domain.fold.accumulation import (
    NOTHING,
    Accumulation,
    add_event,
    add_part,
    adds,
    amount_and_parts,
    divide,
    drop_surplus,
)
from streamsched.domain.fold.cell import IDLE, Cell, TimedNodeState, held_bits, node_due_at
from streamsched.domain.fold.plan import LeafSlot, Plan, TimedNode
from streamsched.domain.jobs.job import Contribution
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.timed import OnExpiry, Quiet, Silence, Then, Unless, Within

#: Most jobs one signal can start; bounds the work when, for example, a stream grows by a terabyte and 10 bytes are
#: needed for a job. The last of them takes all the rest.
JOBS_AT_ONCE: Final = 1000


class Satisfaction(NamedTuple):
    """The trigger held: when, and the job's contributions."""

    at: datetime
    contributions: tuple[Contribution, ...]


class LeafEvent(NamedTuple):
    """The part of an event that one leaf counts under one key; `part`: of the key, where it has parts."""

    slot: LeafSlot
    event: Event
    part: str = ""


class CellUpdate:
    """Works on a copy; the original cell is not changed."""

    __slots__ = (
        "_accumulations",
        "_clocks",
        "_consumption",
        "_fired",
        "_held",
        "_key",
        "_plan",
        "changed",
        "counted",
        "replaced",
        "satisfactions",
    )

    def __init__(self, plan: Plan, cell: Cell, consumption: Consumption, key: str = "") -> None:
        self._plan = plan
        self._consumption = consumption
        self._key = key
        self._accumulations: dict[str, Accumulation] = dict(cell.accumulations)
        self._clocks: dict[int, TimedNodeState] = dict(cell.clocks)
        self._held = cell.held
        self._fired = False
        #: The state differs from the original.
        self.changed = False
        #: Ids of the leaves that counted, in order.
        self.counted: list[str] = []
        #: The event counted but added nothing: it replaced older commits of the same partitions.
        self.replaced = False
        self.satisfactions: list[Satisfaction] = []

    @property
    def is_empty(self) -> bool:
        """Nothing is accumulated and no clock runs; at the instant of a firing, a running silence does not count."""
        nodes = self._plan.timed_nodes
        waiting = any(
            clock != IDLE and not (self._fired and not clock.held and isinstance(nodes[place].timed, Silence))
            for place, clock in self._clocks.items()
        )
        return not self._accumulations and not waiting

    @property
    def has_fired(self) -> bool:
        """The trigger held at the last instant that was evaluated."""
        return self._fired

    def begin(self, at: datetime) -> None:
        """Starts the silences, when a definition takes effect or a key opens. One in the second part of a `then` has
        started with its first part; it starts here only after it was stopped.
        """
        for node in self._plan.timed_nodes:
            begun = isinstance(node.timed, Silence) and all(each.holds(self._held) for each in node.after)
            if begun and node.place not in self._clocks:
                self._clocks[node.place] = TimedNodeState(last=at)

    def stop_silences(self) -> None:
        """Stops the silences that do not hold yet: while no events count, their absence means nothing."""
        for node in self._plan.timed_nodes:
            clock = self._clocks.get(node.place)
            if isinstance(node.timed, Silence) and clock is not None and clock.last is not None and not clock.held:
                del self._clocks[node.place]
                self.changed = True

    def elapse(self, at: datetime, *, fires: bool) -> None:
        """Evaluates everything due up to `at`, in order of time."""
        due, place = self._next_due_node()
        while due is not None and due <= at:
            self._expire(self._plan.timed_nodes[place])
            self._settle_nodes(due, 0)
            instant = due
            due, place = self._next_due_node()
            if due is None or due > instant:
                self._fire(instant, fires=fires)
                if self._key and self._fired and self.is_empty:
                    return  # a key that has fired is closed, and its silences end
                due, place = self._next_due_node()

    def count(self, leaf_events: Iterable[LeafEvent], at: datetime, *, fires: bool) -> None:
        """Counts an event in the leaves that accept parts of it, then settles."""
        before, bits, adding = self._held, 0, False
        for slot, event, part in leaf_events:
            had = self._accumulations.get(slot.id, NOTHING)
            has = add_part(had, slot, part, event) if slot.has_parts else add_event(had, slot, event, self._consumption)
            if has is had:
                continue
            too_early = slot.after and not all(node.holds(before) for node in slot.after)
            if not too_early:
                self.counted.append(slot.leaf)
                adding = adding or adds(has, had, slot)
                if has.events is not had.events:  # otherwise only the level of a stream changed
                    bits |= slot.bit
            if not too_early and not slot.breaks_silence:
                self._keep(slot, has)
            elif has.level != had.level:
                self._accumulations[slot.id] = Accumulation(had.count, has.level, had.events)
                self.changed = True
        if self.counted:
            self.changed = True
            self.replaced = not adding
            self.settle(at, bits, fires=fires)

    def settle(self, at: datetime, counted: int = 0, *, fires: bool) -> None:
        """Settles the timed nodes, then fires while the trigger holds. `counted`: bits of the leaves that counted."""
        self._settle_nodes(at, counted)
        self._fire(at, fires=fires)

    def _fire(self, at: datetime, *, fires: bool) -> None:
        self._fired = False
        if not fires:
            return
        while self._plan.root.holds(self._held):
            self._fired = True
            paired = self._consumption is Consumption.PAIRED and len(self.satisfactions) < JOBS_AT_ONCE - 1
            contributions = self._take() if paired else self._take_everything()
            self.satisfactions.append(Satisfaction(at, contributions))
            self._settle_nodes(at, 0)

    def cell(self, before: Cell) -> Cell:
        """The updated cell; opening time, requested wake-up and number are those of `before`."""
        return Cell(self._accumulations, self._held, self._clocks, before.opened_at, before.asked, before.number)

    def _next_due_node(self) -> tuple[datetime | None, int]:
        """The time and index of the timed node due next; of several the innermost, leftmost."""
        found: tuple[datetime | None, int] = None, -1
        for place, clock in self._clocks.items():
            due = node_due_at(self._plan.timed_nodes[place], clock)
            if due is not None and (found[0] is None or (due, place) < found):
                found = due, place
        return found

    def _keep(self, slot: LeafSlot, has: Accumulation) -> None:
        needed = slot.wanted_amount(self._key)
        if has.count >= needed:
            self._held |= slot.bit
            if self._consumption is Consumption.LATEST:
                has = drop_surplus(has, slot, needed)
        self._accumulations[slot.id] = has

    def _settle_nodes(self, at: datetime, counted: int) -> None:
        for node in self._plan.timed_nodes:
            clock = self._clocks.get(node.place, IDLE)
            if not clock.held:
                self._settle(node, clock, at, counted)

    def _settle(self, node: TimedNode, clock: TimedNodeState, at: datetime, counted: int) -> None:
        running = clock.since is not None
        match node.timed:
            case Silence():
                if counted & node.mask:
                    self._clocks[node.place] = TimedNodeState(last=at)
            case Quiet():
                if node.first.holds(self._held) and (not running or counted & node.mask):
                    self._clocks[node.place] = TimedNodeState(clock.since or at, at)
            case Within():
                if node.first.holds(self._held):
                    self._hold(node)
                elif running != self._has_begun(node):
                    self._run(node, None if running else at)
            case Then() | Unless():
                self._settle_two(node, at, running=running)
            case _:
                assert_never(node.timed)

    def _settle_two(self, node: TimedNode, at: datetime, *, running: bool) -> None:
        one = node.first.holds(self._held)
        other = node.second is not None and node.second.holds(self._held)
        match node.timed:
            case Unless() if other:
                self._start_over(node.mask | node.bit)
            case Then() if one and other:
                self._hold(node)
            case Unless(within=None) if one:
                self._hold(node)
            case _:
                if one and not running:
                    self._run(node, at)

    def _run(self, node: TimedNode, since: datetime | None) -> None:
        if since is None:
            del self._clocks[node.place]
            return
        self._clocks[node.place] = TimedNodeState(since)
        for other in self._plan.timed_nodes:  # a silence in the second part is measured from here
            if isinstance(other.timed, Silence) and other.bit & node.second_mask and other.after[-1:] == (node.first,):
                self._clocks[other.place] = TimedNodeState(last=since)

    def _expire(self, node: TimedNode) -> None:
        self.changed = True
        match node.timed:
            case Within(then=OnExpiry.RESET) | Then():
                self._start_over(node.mask | node.bit)
            case Within() | Quiet() | Unless() | Silence():
                self._hold(node)
            case _:
                assert_never(node.timed)

    def _hold(self, node: TimedNode) -> None:
        self._held |= node.bit
        self._clocks[node.place] = self._clocks.get(node.place, IDLE)._replace(held=True)

    def _has_begun(self, node: TimedNode) -> bool:
        """Whether something inside has come or holds, vetoes excepted. A total that was rewritten to 0 has come."""
        for slot in self._plan.slots:
            counts = slot.bit & node.mask and slot.veto == node.veto
            if counts and self._accumulations.get(slot.id, NOTHING).events:
                return True
        inside = (other for other in self._plan.timed_nodes if other.bit & node.mask and other.veto == node.veto)
        return any(
            (other.place in self._clocks and not isinstance(other.timed, Silence)) or self._held & other.bit
            for other in inside
        )

    def _start_over(self, mask: int) -> None:
        """Drops the state of the leaves and timed nodes of `mask`."""
        for slot in self._plan.slots:
            if slot.bit & mask:
                self._forget(slot.id)
        self._held &= ~mask
        for node in self._plan.timed_nodes:
            if node.bit & mask:
                self._rewind(node)

    def _forget(self, name: str) -> None:
        """Drops what a leaf has counted, except for a stream's level."""
        has = self._accumulations.pop(name, NOTHING)
        if has.level is not None:
            self._accumulations[name] = Accumulation(0, has.level)

    def _rewind(self, node: TimedNode) -> None:
        """Resets a node's clock. A silence that held restarts with the next event; one that did not keeps running,
        unless it is in the second part of a `then` that starts over.
        """
        clock = self._clocks.get(node.place, IDLE)
        if not isinstance(node.timed, Silence):
            self._clocks.pop(node.place, None)
        elif clock.held:
            self._clocks[node.place] = IDLE
        if isinstance(node.timed, Then):
            for other in self._plan.timed_nodes:
                if isinstance(other.timed, Silence) and other.bit & node.second_mask:
                    self._clocks.pop(other.place, None)
                    self._held &= ~other.bit

    def _take_everything(self) -> tuple[Contribution, ...]:
        contributions = tuple(
            Contribution(slot.leaf, *amount_and_parts(has, slot))
            for slot in self._plan.slots
            if (has := self._accumulations.get(slot.id)) is not None and has.events and not slot.veto
        )
        for name in list(self._accumulations):
            self._forget(name)
        self._held = 0
        for node in self._plan.timed_nodes:
            self._rewind(node)
        return contributions

    def _take(self) -> tuple[Contribution, ...]:
        """Takes from each used leaf the oldest events it needs; from a `quiet` and an expired `within` everything."""
        used, whole = self._expand_used(self._plan.root.used_bits(self._held), 0)
        contributions: list[Contribution] = []
        for slot in self._plan.slots:
            has = self._accumulations.get(slot.id)
            if slot.since_run and not used & slot.bit:
                self._forget(slot.id)
            if not used & slot.bit or has is None or not has.events:
                continue
            if whole & slot.bit:
                if not slot.veto:
                    contributions.append(Contribution(slot.leaf, *amount_and_parts(has, slot)))
                self._forget(slot.id)
                continue
            taken, left = divide(has, slot, slot.wanted_amount(self._key))
            contributions.append(Contribution(slot.leaf, taken.amount, taken.events))
            if left == NOTHING:
                del self._accumulations[slot.id]
            else:
                self._accumulations[slot.id] = left
        for node in self._plan.timed_nodes:
            if node.bit & used:
                self._rewind(node)
        self._rehold()
        for node in self._plan.timed_nodes:
            if node.bit & used and not (isinstance(node.timed, Then) and node.first.holds(self._held)):
                # events of the second part belong to the first part just used up, and so do events of a veto
                self._start_over(node.second_mask)
        return tuple(contributions)

    def _expand_used(self, chosen: int, whole: int) -> tuple[int, int]:
        """Expands `chosen` to the leaves and timed nodes inside; also returns those that are used up entirely."""
        for node in reversed(self._plan.timed_nodes):
            if not node.bit & chosen:
                continue
            match node.timed:
                case Quiet():
                    chosen |= node.mask
                    whole |= node.mask
                case Within() if not node.first.holds(self._held):
                    chosen |= node.mask
                    whole |= node.mask
                case Then():
                    second = 0 if node.second is None else node.second.used_bits(self._held)
                    chosen |= node.first.used_bits(self._held) | second
                case Within() | Unless():
                    chosen |= node.first.used_bits(self._held)
                case Silence():
                    pass
                case _:
                    assert_never(node.timed)
        return chosen, whole

    def _rehold(self) -> None:
        self._held = held_bits(self._plan, self._accumulations, self._key)
        for place, clock in self._clocks.items():
            if clock.held:
                self._held |= self._plan.timed_nodes[place].bit
