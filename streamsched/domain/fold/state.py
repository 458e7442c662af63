"""A schedule's state between two signals: its current definition and what has accumulated under it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from streamsched.domain.events.lateness import Late
from streamsched.domain.fold.accumulation import Accumulation
from streamsched.domain.fold.cell import EMPTY, Cell, next_due_at
from streamsched.domain.fold.cell_update import Satisfaction
from streamsched.domain.fold.effect import Effect, Launch, Wake
from streamsched.domain.fold.plan import Plan, build_plan
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.pause import MOST_BACKLOG
from streamsched.domain.signals.verdict import JudgedEvent
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import Trigger

NO_CELLS: Final[Mapping[str, Cell]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition in effect between one `Put` and the next.

    Attributes:
        enabled: it fires.
        keeping: it is paused: not enabled, but the accumulation stays, and events count unless it is draining.
        consumption: what a satisfaction uses up.
        late: the policy for late events; None counts them.
        draining: events do not count.
        backlog: it is paused and makes jobs that wait, each by itself; at most `MOST_BACKLOG`.
        former: generation and sequence of the latest job of a generation that this one keeps; (0, 0) without one. Only
            of a trigger with a `SinceLastRun`.
        plan: derived from the trigger.
        encoded: the codec's cache of the encoded definition.
    """

    schedule: ScheduleRef
    generation: int
    enabled: bool
    trigger: Trigger
    consumption: Consumption = Consumption.CUMULATIVE
    late: Late | None = None
    keeping: bool = False
    draining: bool = False
    backlog: bool = False
    former: tuple[int, int] = (0, 0)
    plan: Plan = field(init=False, compare=False, repr=False)
    encoded: bytes | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plan", build_plan(self.trigger))

    @property
    def counts(self) -> bool:
        """Whether events count."""
        return self.keeps and not self.draining

    @property
    def keeps(self) -> bool:
        """Whether it has an accumulation, for which time passes: it is enabled, or paused and keeping."""
        return self.enabled or self.keeping


class TriggerState(NamedTuple):
    """One schedule's definition and accumulation.

    Attributes:
        sequence: the highest sequence number of this generation's jobs; the next job has this number plus one.
        cell: the accumulation; unused by a schedule that correlates, whose keys have their own cells.
        lost: number of keys closed incomplete, because they expired or too many were open.
        dropped: the part of `lost` closed because too many were open.
        refused: number of events refused because they would have opened too many keys.
        keyless: number of events without a key, or with partitions without one.
        keyless_why: why the last of them had none.
    """

    definition: Definition
    sequence: int = 0
    cell: Cell = EMPTY
    lost: int = 0
    dropped: int = 0
    refused: int = 0
    keyless: int = 0
    keyless_why: str = ""

    @property
    def schedule(self) -> ScheduleRef:
        return self.definition.schedule

    @property
    def generation(self) -> int:
        return self.definition.generation

    @property
    def is_enabled(self) -> bool:
        return self.definition.enabled

    @property
    def fires(self) -> bool:
        """Whether a trigger that holds makes a job; not when the backlog is full."""
        definition = self.definition
        return definition.enabled and not (definition.backlog and self.sequence >= MOST_BACKLOG)

    @property
    def latest_job(self) -> tuple[int, int]:
        """Generation and sequence of the latest valid job, as far as `Definition.former` is kept."""
        return (self.generation, self.sequence) if self.sequence else self.definition.former

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
        """By slot id; an empty slot is absent."""
        return self.cell.accumulations


class Folded(NamedTuple):
    """The result of folding one signal.

    Attributes:
        state: the new state; the same object when nothing changed.
        effects: to be executed in order.
        verdict: for an event.
        cells: the changed cells by key; None: closed.
    """

    state: TriggerState | None
    effects: tuple[Effect, ...] = ()
    verdict: JudgedEvent | None = None
    cells: Mapping[str, Cell | None] = NO_CELLS

    @property
    def jobs(self) -> tuple[ReadyJob, ...]:
        """The jobs among the effects, in order."""
        return tuple(effect.job for effect in self.effects if isinstance(effect, Launch))


def launches(
    state: TriggerState, key: str, satisfactions: Sequence[Satisfaction], before: int = 0, corrects: str = ""
) -> tuple[Launch, ...]:
    """The jobs of the satisfactions, numbered from the state's sequence plus `before`. `corrects`: the job whose
    corrections they are.
    """
    schedule, generation, sequence = state.schedule, state.generation, state.sequence + before
    backlog = state.definition.backlog
    return tuple(
        Launch(
            ReadyJob(
                schedule,
                generation,
                sequence + number,
                each.at,
                each.contributions,
                key,
                backlog=backlog,
                corrects=corrects,
            )
        )
        for number, each in enumerate(satisfactions, 1)
    )


def with_wakes(definition: Definition, key: str, cell: Cell) -> tuple[Cell, tuple[Wake, ...]]:
    """The cell with its wake-up requested. An earlier requested wake-up is left in place: when it arrives it requests
    the next one, which costs less than a request at every event of a burst.
    """
    if not definition.plan.timed_nodes and definition.plan.per is None:
        return cell, ()
    due, asked = next_due_at(definition.plan, cell), cell.asked
    if due == asked or (due is not None and asked is not None and asked < due):
        return cell, ()
    return cell._replace(asked=due), (Wake(definition.schedule, definition.generation, key, due),)
