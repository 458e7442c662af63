"""The limits under which a submission to a program runs: those its schedules share, the strictest of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from streamsched.domain.constraints.constraint import Concurrency, ConcurrencyScope, Constraint
from streamsched.domain.constraints.group import groups_of_manual_run
from streamsched.domain.constraints.pool import pools_of_manual_run
from streamsched.domain.constraints.rate import RateScope
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.triggers.trigger import CustomEvent


def limits_of_program(program: ProgramRef, schedules: Iterable[Schedule]) -> Schedule:
    """A definition without properties, policies, deadlines or timeout; `schedules` are all that start the program. It
    waits for the smallest `max_concurrent` of the program among them (a limit of a key or a schedule does not apply: it
    is a job of neither), their groups, their pool (with priority 0), their loads, and their rates of the program or a
    group. It is never stored, and nothing satisfies its trigger.

    Raises:
        InvalidDefinitionError: the schedules are in several pools.
    """
    found = tuple(schedules)
    pools = pools_of_manual_run(each.pool for each in found)
    if len(pools) > 1:
        names = " and ".join(pool.name for pool in pools)
        raise InvalidDefinitionError("$.program", f"{program} has schedules in the pools {names}: name the schedule")
    concurrency = (each for one in found for each in one.constraints if isinstance(each, Concurrency))
    limits = [each.limit for each in concurrency if each.of is ConcurrencyScope.PROGRAM]
    rates = (each for one in found for each in one.rates if each.of in (RateScope.PROGRAM, RateScope.GROUP))
    constraints: Sequence[Constraint] = (
        *(Concurrency(limit, wait=True) for limit in sorted(limits)[:1]),
        *(replace(each, wait=True) for each in groups_of_manual_run(each for one in found for each in one.groups)),
        *(replace(each, priority=0, wait=True) for each in pools),
        *dict.fromkeys(replace(each, wait=True) for each in rates),
        *dict.fromkeys(replace(each, wait=True) for one in found for each in one.loads),
    )
    return Schedule(
        ScheduleRef(program.namespace, program.app, program.name),
        program,
        CustomEvent(EventName(program.namespace, "submitted")),
        constraints=tuple(constraints),
        overlap=Overlap.QUEUE,
    )
