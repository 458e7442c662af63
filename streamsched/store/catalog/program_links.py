"""Which schedules of a namespace start which programs, as a deployment needs them (`ProgramLink`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import structlog

from streamsched.codec.triggers import trigger as trigger_codec
from streamsched.domain.errors import InvalidError, describe_failure
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.store.catalog.records import ProgramLink
from streamsched.store.connections import Connection
from streamsched.store.sql import Select, queries

_SQL: Final = queries("catalog/program_links")
log = structlog.get_logger()


class LinkRow(NamedTuple):
    """A schedule and what starts its program."""

    id: str
    program: str
    trigger: Any


_LINKS: Final = Select(_SQL["links"], LinkRow)


async def read_links(connection: Connection, app: AppRef, awaited: Collection[ProgramRef]) -> Sequence[LinkRow]:
    """Rows of the schedules of other apps of the namespace that lead to these programs, or to what stored schedules of
    the app and joins of the namespace wait for; and of these joins.
    """
    return await _LINKS.fetch(connection, str(app), app.namespace, [str(each) for each in awaited])


def links_of(rows: Iterable[LinkRow]) -> Iterator[ProgramLink]:
    """The links of rows; those that this release cannot read are logged and left out."""
    for row in rows:
        try:
            trigger = trigger_codec.from_json(row.trigger)
            yield ProgramLink(ScheduleRef.parse(row.id), ProgramRef.parse(row.program), trigger)
        except InvalidError as failure:
            log.error("schedule.unreadable", schedule=row.id, reason=describe_failure(failure))
