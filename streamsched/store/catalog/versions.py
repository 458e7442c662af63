"""Versions of schedules (table `schedule_versions`), written in the transaction of the change that made them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from streamsched.codec.schedules.schedule import schedule_to_json
from streamsched.ports.catalog import Action, ScheduleChange, ScheduleRecord
from streamsched.ports.schedules.version import ScheduleVersion
from streamsched.store.connections import Connection
from streamsched.store.sql import queries

_SQL = queries("catalog/versions")

#: Versions that a schedule keeps.
MOST_VERSIONS: Final = 50


async def record_versions(connection: Connection, changes: Sequence[ScheduleChange]) -> None:
    """Stores the definitions that are new, and before each the former one if the schedule has no version."""
    new = [each for each in changes if each.action is not Action.DELETED and _differs(each)]
    if not new:
        return
    former = [_row(each.before, "") for each in new if each.before is not None]
    if former:
        await connection.execute(_SQL["put_first"], *map(list, zip(*former, strict=True)))
    rows = [_row(each.after, each.reason) for each in new]
    await connection.execute(_SQL["put"], *map(list, zip(*rows, strict=True)))
    await connection.execute(_SQL["forget"], [row[0] for row in rows], MOST_VERSIONS)


async def versions(connection: Connection, schedule: str, limit: int) -> list[ScheduleVersion]:
    """The newest versions of one schedule, newest first."""
    return [ScheduleVersion(**row) for row in await connection.fetch(_SQL["versions"], schedule, limit)]


def _differs(change: ScheduleChange) -> bool:
    before = change.before
    return before is None or not before.exists or before.definition != change.after.definition


def _row(record: ScheduleRecord, reason: str) -> tuple[Any, ...]:
    definition = schedule_to_json(record.definition)
    return str(record.definition.ref), record.generation, record.updated_at, reason, definition
