"""States made by hand, for tests that need one in a given condition."""

from __future__ import annotations

from collections.abc import Mapping

from streamsched.domain.fold.accumulation import Accumulation
from streamsched.domain.fold.cell import cell_of
from streamsched.domain.fold.fold import Definition, TriggerState
from streamsched.domain.names import ScheduleRef
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import Trigger


def state_of(
    schedule: ScheduleRef,
    trigger: Trigger,
    accumulations: Mapping[str, Accumulation] | None = None,
    *,
    generation: int = 1,
    enabled: bool = True,
    sequence: int = 0,
    consumption: Consumption = Consumption.CUMULATIVE,
) -> TriggerState:
    """A state that has accumulated that much."""
    definition = Definition(schedule, generation, enabled, trigger, consumption)
    return TriggerState(definition, sequence, cell_of(definition.plan, accumulations or {}))
