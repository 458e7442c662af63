"""Programs that schedules of other namespaces wait for and that are deleted (table `removed_programs`). Written in the
transaction of the deletion, with a line in the history of each such schedule and an entry in the audit for each
namespace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.domain.history import HistoryEntry
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.programs.removed_program import RemovedProgram
from streamsched.store import audit
from streamsched.store.catalog.history import record_all
from streamsched.store.catalog.records import Action, AppChange, ForeignWait
from streamsched.store.connections import Connection, Executor
from streamsched.store.sql import Select, queries

_SQL: Final = queries("catalog/removed_programs")

#: The action in the audit and in the history of the schedules.
ACTION: Final = "program.removed"
#: Names of schedules, and of programs, in one entry of the audit; `total` counts all schedules.
_NAMED: Final = 20


class _Wait(NamedTuple):
    """A schedule that waits for a program."""

    id: str
    program: str


class _Enabled(NamedTuple):
    """Whether a schedule is enabled."""

    id: str
    enabled: bool


_WAITS: Final = Select(_SQL["awaiting"], _Wait)
_ENABLED: Final = Select(_SQL["activity"], _Enabled)


async def find_waiting(
    connection: Connection, app: AppRef, programs: Iterable[ProgramRef]
) -> tuple[list[str], tuple[ForeignWait, ...]]:
    """The schedules of other apps that wait for one of these programs of the app: the ids of those of its namespace in
    order, and those of other namespaces.
    """
    given = [(str(ref), _program_id(ref)) for ref in programs]
    if not given:
        return [], ()
    rows = await _WAITS.fetch(connection, str(app), *map(list, zip(*given, strict=True)))
    found = [ForeignWait(ScheduleRef.parse(row.id), ProgramRef.parse(row.program)) for row in rows]
    own = {str(each.schedule) for each in found if each.schedule.namespace == app.namespace}
    return sorted(own), tuple(each for each in found if each.schedule.namespace != app.namespace)


async def find_waiting_for(executor: Executor, program: ProgramRef) -> list[str]:
    """The ids of the schedules of any namespace that wait for the program."""
    return [schedule for (schedule,) in await executor.fetch(_SQL["awaiting_one"], _program_id(program))]


async def record_removals(connection: Connection, change: AppChange, by: str, now: datetime) -> None:
    """Notes which schedules of other namespaces the change leaves waiting, and which programs exist again."""
    deployed = [str(each.program.ref) for each in change.programs if each.action is not Action.DELETED]
    if deployed:
        await connection.execute(_SQL["deployed"], deployed)
    gone = [str(each.after.definition.ref) for each in change.schedules if each.action is Action.DELETED]
    if gone:
        await connection.execute(_SQL["forget"], gone)
    if not change.foreign_waits:
        return
    pairs = [(str(each.schedule), str(each.program)) for each in change.foreign_waits]
    await connection.execute(_SQL["put"], *map(list, zip(*pairs, strict=True)), now, by)
    enabled = dict(await _ENABLED.fetch(connection, sorted({schedule for schedule, _ in pairs})))
    lines = [
        HistoryEntry(
            now,
            "schedule",
            str(each.schedule),
            ACTION,
            f"it {RemovedProgram(each.program, now, by)}",
            {"enabled": enabled.get(str(each.schedule), False)},
        )
        for each in change.foreign_waits
    ]
    await record_all(connection, lines)
    await _audit(connection, change.foreign_waits, by, now)


async def _audit(connection: Connection, waits: Sequence[ForeignWait], by: str, now: datetime) -> None:
    """An entry for each namespace whose schedules wait."""
    of_namespace: defaultdict[str, list[ForeignWait]] = defaultdict(list)
    for each in waits:
        of_namespace[each.schedule.namespace].append(each)
    for namespace, own in sorted(of_namespace.items()):
        schedules = {str(each.schedule) for each in own}
        detail = {
            "programs": _first_names(str(each.program) for each in own),
            "schedules": _first_names(schedules),
            "total": len(schedules),
        }
        await audit.append(connection, caller=by, action=ACTION, target=namespace, detail=detail, now=now)


def _program_id(ref: ProgramRef) -> dict[str, str]:
    """The `programId` of a trigger, as stored."""
    return {"namespace": ref.namespace, "application": ref.app, "program": ref.name}


def _first_names(names: Iterable[str]) -> Collection[str]:
    return sorted(set(names))[:_NAMED]
