"""A schedule's state between two signals: the definition that judges, and what has accumulated under it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from streamsched.domain.accumulation import Accumulation
from streamsched.domain.cell import EMPTY, Cell, next_due
from streamsched.domain.consumption import Consumption
from streamsched.domain.draft import Satisfaction
from streamsched.domain.effect import Effect, Launch, Wake
from streamsched.domain.job import ReadyJob
from streamsched.domain.lateness import Late
from streamsched.domain.names import ScheduleRef
from streamsched.domain.plan import Plan, planned
from streamsched.domain.trigger import Trigger
from streamsched.domain.verdict import Judged

NO_CELLS: Final[Mapping[str, Cell]] = MappingProxyType({})


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

    @property
    def counts(self) -> bool:
        """Events count: it is enabled, or pauses and keeps."""
        return self.enabled or self.keeping


class TriggerState(NamedTuple):
    """One schedule's definition and accumulation.

    Attributes:
        sequence: how many times this generation has fired, or a number that a job of it is known to have; the next job
            has this number plus one.
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


def launches(
    state: TriggerState, key: str, satisfactions: Sequence[Satisfaction], before: int = 0
) -> tuple[Launch, ...]:
    """The jobs of satisfactions, numbered on from the state's and `before` more."""
    schedule, generation, sequence = state.schedule, state.generation, state.sequence + before
    return tuple(
        Launch(ReadyJob(schedule, generation, sequence + number, each.at, each.contributions, key))
        for number, each in enumerate(satisfactions, 1)
    )


def asking(definition: Definition, key: str, cell: Cell) -> tuple[Cell, tuple[Wake, ...]]:
    """The cell that has asked to be woken when it must be. An earlier wake-up that was asked for is let come: it finds
    nothing to do and asks anew, which costs less than asking at every event of a burst.
    """
    if not definition.plan.watches and definition.plan.per is None:
        return cell, ()
    due, asked = next_due(definition.plan, cell), cell.asked
    if due == asked or (due is not None and asked is not None and asked < due):
        return cell, ()
    return cell._replace(asked=due), (Wake(definition.schedule, definition.generation, key, due),)
