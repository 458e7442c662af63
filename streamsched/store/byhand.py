"""Runs that no job stands behind: somebody wants one, or a deadline does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from streamsched.codec.schedule import program_from_json, program_to_json, schedule_from_json
from streamsched.domain.admission import Facts, check_all
from streamsched.domain.errors import ConflictError
from streamsched.domain.group import Group, taken_by_hand
from streamsched.domain.job import Lane
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.pool import Line, Pool, pools_by_hand, slots_name
from streamsched.domain.rate import Metered, meter_of
from streamsched.domain.run import RunState
from streamsched.domain.schedule import Schedule
from streamsched.store import groups, meters
from streamsched.store.ending import SQL, record


async def make_run(
    connection: Any,
    program: ProgramRef,
    definition: Any,
    run: str,
    arguments: Mapping[str, str],
    *,
    why: str,
    now: datetime,
    at_most: int | None = None,
    force: bool = False,
) -> None:
    """A PENDING run of a program that is locked and has this `definition`; what it takes of groups and rates is taken.
    With `force` there is room for it, whatever the limits. A repeat is the same run.

    Raises:
        ConflictError: there is no room.
    """
    if await connection.fetchrow(SQL["get"], run) is not None:
        return
    standing = [schedule_from_json(row["definition"]) for row in await connection.fetch(SQL["schedules"], str(program))]
    slots = taken_by_hand(group for each in standing for group in each.groups)
    pools = pools_by_hand(each.pool for each in standing)
    held = [*((each.name, each.weight) for each in slots), *((slots_name(each.name), 1) for each in pools)]
    occupied = await groups.locked(connection, (name for name, _ in held))
    if not force:
        lines = {each.name: Line(occupied[slots_name(each.name)]) for each in pools}
        facts = Facts(now, groups=occupied, lines=lines)
        await _make_room(connection, program, at_most, (*slots, *pools), facts)
    known = program_from_json(definition)
    given = {**known.arguments, **arguments}
    await connection.execute(SQL["start"], run, str(program), program_to_json(known), given, RunState.PENDING, now)
    await groups.take(connection, [(name, run, weight) for name, weight in held])
    await _count(connection, program, standing, now)
    await record(connection, "run", run, "run.created", why, at=now)
    await connection.execute(SQL["ring"])


async def _count(connection: Any, program: ProgramRef, schedules: Sequence[Schedule], now: datetime) -> None:
    """The run takes tokens of what meters the program, and of the groups that its schedules name in rates."""
    anybody = Lane(ScheduleRef(program.namespace, program.app, program.name))
    asked = {
        meter_of(rate, program, anybody)
        for each in schedules
        for rate in each.rates
        if rate.of in (Metered.PROGRAM, Metered.GROUP)
    }
    known = await meters.locked(connection, asked, now=now)
    await meters.take(connection, known, {meter.scope for meter in known}, now)


async def _make_room(
    connection: Any, program: ProgramRef, at_most: int | None, shared: Sequence[Group | Pool], facts: Facts
) -> None:
    """Raises:
    ConflictError: there is none.
    """
    active = await connection.fetchval(SQL["active"], str(program))
    if at_most is not None and active >= at_most:
        raise ConflictError(f"program '{program}' has {active} active runs; at most {at_most} were asked for")
    room = check_all(tuple(replace(each, wait=False) for each in shared), facts, facts.satisfied_at)
    if room.aborted:
        raise ConflictError(room.why)
