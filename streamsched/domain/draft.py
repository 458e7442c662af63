"""A cell while one signal changes it: time passes, an event counts, watches settle, and what holds fires.

Time first: what was due before the event is judged before it counts, as of the instant it was due. So a wake-up that
comes late, twice or not at all changes no decision, only when it becomes visible. What is due at the very same instant
is judged together, inner parts first, and only then does what holds fire.

A watch settles after those inside it: it begins its clock, sees that it holds, or starts over. `within` and `then`
start over when their time is up, `unless` when its veto holds; that forgets what the leaves inside have counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple, assert_never

from streamsched.domain.accumulation import NOTHING, Accumulation, added, added_once, renewed
from streamsched.domain.cell import IDLE, Cell, Clock, due_at, held_bits
from streamsched.domain.consumption import Consumption
from streamsched.domain.event import Event
from streamsched.domain.job import Contribution
from streamsched.domain.plan import Plan, Slot, Watch
from streamsched.domain.share import first, oldest
from streamsched.domain.timed import OnExpiry, Quiet, Silence, Then, Unless, Within

#: As many jobs as one signal can start. A stream that grew by a terabyte where ten bytes were asked for is a mistake.
JOBS_AT_ONCE: Final = 1000


class Satisfaction(NamedTuple):
    """The trigger held: when, and what goes with the job."""

    at: datetime
    contributions: tuple[Contribution, ...]


class Share(NamedTuple):
    """What one leaf sees of an event under one key; `value` is the finer period, in a roll-up."""

    slot: Slot
    event: Event
    value: str = ""


class Draft:
    """Changes a copy; the cell it began with stays as it is."""

    __slots__ = (
        "_accumulations",
        "_clocks",
        "_consumption",
        "_held",
        "_key",
        "_plan",
        "changed",
        "counted",
        "satisfactions",
    )

    def __init__(self, plan: Plan, cell: Cell, consumption: Consumption, key: str = "") -> None:
        self._plan = plan
        self._consumption = consumption
        self._key = key
        self._accumulations: dict[str, Accumulation] = dict(cell.accumulations)
        self._clocks: dict[int, Clock] = dict(cell.clocks)
        self._held = cell.held
        #: Something is not as it was.
        self.changed = False
        #: Ids of the leaves that counted, in order.
        self.counted: list[str] = []
        self.satisfactions: list[Satisfaction] = []

    @property
    def empty(self) -> bool:
        """Nothing has come and nothing is waited for; a silence alone is nothing once the whole has fired."""
        watches = self._plan.watches
        waiting = any(
            clock != IDLE and not (self.satisfactions and not clock.held and isinstance(watches[place].timed, Silence))
            for place, clock in self._clocks.items()
        )
        return not self._accumulations and not waiting

    def begin(self, at: datetime) -> None:
        """A definition comes into force, or a key opens: silences begin to be measured."""
        for watch in self._plan.watches:
            if isinstance(watch.timed, Silence) and not watch.after and watch.place not in self._clocks:
                self._clocks[watch.place] = Clock(last=at)

    def elapse(self, at: datetime, *, fires: bool) -> None:
        """Time has passed up to `at`."""
        due, place = self._next_due()
        while due is not None and due <= at:
            self._expire(self._plan.watches[place])
            self._settle_watches(due, 0)
            instant = due
            due, place = self._next_due()
            if due is None or due > instant:
                self._fire(instant, fires=fires)
                if self._key and self.satisfactions and self.empty:
                    return  # a key that has fired is closed: no silence of it is measured any more
                due, place = self._next_due()

    def count(self, shares: Iterable[Share], at: datetime, *, fires: bool) -> None:
        """An event counts in the leaves that see something of it."""
        before, bits = self._held, 0
        for slot, event, value in shares:
            had = self._accumulations.get(slot.id, NOTHING)
            has = added_once(had, slot, value, event) if slot.rolls else added(had, slot, event, self._consumption)
            if has is had:
                continue
            deaf = slot.after and not all(node.holds(before) for node in slot.after)
            if not deaf:
                self.counted.append(slot.leaf)
                if has.events is not had.events:  # else it only said how large a stream is
                    bits |= slot.bit
            if not deaf and not slot.breaks:
                self._keep(slot, has)
            elif has.level != had.level:
                self._accumulations[slot.id] = Accumulation(had.count, has.level, had.events)
                self.changed = True
        if self.counted:
            self.changed = True
            self.settle(at, bits, fires=fires)

    def settle(self, at: datetime, counted: int = 0, *, fires: bool) -> None:
        """Watches see what has changed; what holds then fires."""
        self._settle_watches(at, counted)
        self._fire(at, fires=fires)

    def _fire(self, at: datetime, *, fires: bool) -> None:
        if not fires:
            return
        while self._plan.root.holds(self._held):
            paired = self._consumption is Consumption.PAIRED and len(self.satisfactions) < JOBS_AT_ONCE - 1
            told = self._take() if paired else self._take_everything()
            self.satisfactions.append(Satisfaction(at, told))
            self._settle_watches(at, 0)

    def cell(self, before: Cell) -> Cell:
        """The cell from here on, as old as it was before and asking for the same."""
        return Cell(self._accumulations, self._held, self._clocks, before.opened_at, before.asked, before.number)

    def _next_due(self) -> tuple[datetime | None, int]:
        """Which watch is due next, and when: of several the innermost, leftmost."""
        found: tuple[datetime | None, int] = None, -1
        for place, clock in self._clocks.items():
            due = due_at(self._plan.watches[place], clock)
            if due is not None and (found[0] is None or (due, place) < found):
                found = due, place
        return found

    def _keep(self, slot: Slot, has: Accumulation) -> None:
        needed = slot.wanted(self._key)
        if has.count >= needed:
            self._held |= slot.bit
            if self._consumption is Consumption.LATEST:
                has = renewed(has, slot, needed)
        self._accumulations[slot.id] = has

    def _settle_watches(self, at: datetime, counted: int) -> None:
        for watch in self._plan.watches:
            clock = self._clocks.get(watch.place, IDLE)
            if not clock.held:
                self._settle(watch, clock, at, counted)

    def _settle(self, watch: Watch, clock: Clock, at: datetime, counted: int) -> None:
        running = clock.since is not None
        match watch.timed:
            case Silence():
                if counted & watch.mask:
                    self._clocks[watch.place] = Clock(last=at)
            case Quiet():
                if watch.first.holds(self._held) and (not running or counted & watch.mask):
                    self._clocks[watch.place] = Clock(clock.since or at, at)
            case Within():
                if watch.first.holds(self._held):
                    self._hold(watch)
                elif running != self._begun(watch):
                    self._run(watch, None if running else at)
            case Then() | Unless():
                self._settle_two(watch, at, running=running)
            case _:
                assert_never(watch.timed)

    def _settle_two(self, watch: Watch, at: datetime, *, running: bool) -> None:
        one = watch.first.holds(self._held)
        other = watch.second is not None and watch.second.holds(self._held)
        match watch.timed:
            case Unless() if other:
                self._start_over(watch.mask | watch.bit)
            case Then() if one and other:
                self._hold(watch)
            case Unless(within=None) if one:
                self._hold(watch)
            case _:
                if one and not running:
                    self._run(watch, at)

    def _run(self, watch: Watch, since: datetime | None) -> None:
        if since is None:
            del self._clocks[watch.place]
            return
        self._clocks[watch.place] = Clock(since)
        for other in self._plan.watches:  # a silence that must follow is measured from here
            if (
                isinstance(other.timed, Silence)
                and other.bit & watch.second_mask
                and other.after[-1:] == (watch.first,)
            ):
                self._clocks[other.place] = Clock(last=since)

    def _expire(self, watch: Watch) -> None:
        self.changed = True
        match watch.timed:
            case Within(then=OnExpiry.RESET) | Then():
                self._start_over(watch.mask | watch.bit)
            case Within() | Quiet() | Unless() | Silence():
                self._hold(watch)
            case _:
                assert_never(watch.timed)

    def _hold(self, watch: Watch) -> None:
        self._held |= watch.bit
        self._clocks[watch.place] = self._clocks.get(watch.place, IDLE)._replace(held=True)

    def _begun(self, watch: Watch) -> bool:
        """Something inside has counted, or holds; what must not come does neither."""
        for slot in self._plan.slots:
            counts = slot.bit & watch.mask and slot.veto == watch.veto
            if counts and self._accumulations.get(slot.id, NOTHING).count:
                return True
        inside = (other for other in self._plan.watches if other.bit & watch.mask and other.veto == watch.veto)
        return any(
            (other.place in self._clocks and not isinstance(other.timed, Silence)) or self._held & other.bit
            for other in inside
        )

    def _start_over(self, mask: int) -> None:
        """What these leaves and watches have is forgotten."""
        for slot in self._plan.slots:
            if slot.bit & mask:
                self._forget(slot.id)
        self._held &= ~mask
        for watch in self._plan.watches:
            if watch.bit & mask:
                self._rewind(watch)

    def _forget(self, name: str) -> None:
        """What a leaf has counted, but for a stream's level."""
        has = self._accumulations.pop(name, NOTHING)
        if has.level is not None:
            self._accumulations[name] = Accumulation(0, has.level)

    def _rewind(self, watch: Watch) -> None:
        """A silence that held waits for the next event; one that did not goes on being measured, unless it follows what
        begins anew.
        """
        clock = self._clocks.get(watch.place, IDLE)
        if not isinstance(watch.timed, Silence):
            self._clocks.pop(watch.place, None)
        elif clock.held:
            self._clocks[watch.place] = IDLE
        if isinstance(watch.timed, Then):
            for other in self._plan.watches:
                if isinstance(other.timed, Silence) and other.bit & watch.second_mask:
                    self._clocks.pop(other.place, None)
                    self._held &= ~other.bit

    def _take_everything(self) -> tuple[Contribution, ...]:
        told = tuple(
            Contribution(slot.leaf, has.count, tuple(has.events))
            for slot in self._plan.slots
            if (has := self._accumulations.get(slot.id)) is not None and has.events and not slot.veto
        )
        for name in list(self._accumulations):
            self._forget(name)
        self._held = 0
        for watch in self._plan.watches:
            self._rewind(watch)
        return told

    def _take(self) -> tuple[Contribution, ...]:
        """Of each leaf that is used its oldest, as much as it needs; of what rested or ran out of time, everything."""
        used, whole = self._used(self._plan.root.used(self._held), 0)
        told: list[Contribution] = []
        for slot in self._plan.slots:
            has = self._accumulations.get(slot.id)
            if not used & slot.bit or has is None or not has.events:
                continue
            if whole & slot.bit:
                if not slot.veto:
                    told.append(Contribution(slot.leaf, has.count, tuple(has.events)))
                self._forget(slot.id)
                continue
            wanted = slot.wanted(self._key)
            amount, events, rest = first(has.events, wanted) if slot.rolls else oldest(has.events, wanted, slot.measure)
            told.append(Contribution(slot.leaf, amount, events))
            left = Accumulation(max(0, has.count - amount) if rest else 0, has.level, rest)
            if left == NOTHING:
                del self._accumulations[slot.id]
            else:
                self._accumulations[slot.id] = left
        for watch in self._plan.watches:
            if watch.bit & used:
                self._rewind(watch)
        self._rehold()
        for watch in self._plan.watches:
            if watch.bit & used and not (isinstance(watch.timed, Then) and watch.first.holds(self._held)):
                # what came after a first part that is used up came before the next one; a veto was for what is used up
                self._start_over(watch.second_mask)
        return tuple(told)

    def _used(self, chosen: int, whole: int) -> tuple[int, int]:
        """The leaves and watches that `chosen` stands for, and those of them that are used up whole."""
        for watch in reversed(self._plan.watches):
            if not watch.bit & chosen:
                continue
            match watch.timed:
                case Quiet():
                    chosen |= watch.mask
                    whole |= watch.mask
                case Within() if not watch.first.holds(self._held):
                    chosen |= watch.mask
                    whole |= watch.mask
                case Then():
                    second = 0 if watch.second is None else watch.second.used(self._held)
                    chosen |= watch.first.used(self._held) | second
                case Within() | Unless():
                    chosen |= watch.first.used(self._held)
                case Silence():
                    pass
                case _:
                    assert_never(watch.timed)
        return chosen, whole

    def _rehold(self) -> None:
        self._held = held_bits(self._plan, self._accumulations, self._key)
        for place, clock in self._clocks.items():
            if clock.held:
                self._held |= self._plan.watches[place].bit
