"""Versions of schedules (table `schedule_versions`), written in the transaction of the change that made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from streamsched.codec.schedules.schedule import schedule_to_json
from streamsched.domain.schedules.schedule import ScheduleRecord
from streamsched.store.catalog.records import Action, ScheduleChange
from streamsched.store.connections import Connection
from streamsched.store.sql import Select, queries

_SQL = queries("catalog/versions")

#: Versions that a schedule keeps.
MOST_VERSIONS: Final = 50


class ScheduleVersion(NamedTuple):
    """A definition that a schedule has had, as JSON; `generation` is the first one with it."""

    generation: int
    at: datetime
    reason: str
    definition: Mapping[str, Any]


#: The newest versions of one schedule, newest first: its id, and how many.
VERSIONS: Final = Select(_SQL["versions"], ScheduleVersion)


async def record_versions(connection: Connection, changes: Sequence[ScheduleChange]) -> None:
    """Stores the definitions that are new."""
    new = [each for each in changes if each.action is not Action.DELETED and _is_new(each)]
    if not new:
        return
    rows = [_row(each.after, each.reason) for each in new]
    await connection.execute(_SQL["put"], *map(list, zip(*rows, strict=True)))
    await connection.execute(_SQL["forget"], [row[0] for row in rows], MOST_VERSIONS)


def _is_new(change: ScheduleChange) -> bool:
    before = change.before
    return before is None or not before.exists or before.definition != change.after.definition


def _row(record: ScheduleRecord, reason: str) -> tuple[Any, ...]:
    definition = schedule_to_json(record.definition)
    return str(record.definition.ref), record.generation, record.updated_at, reason, definition
