"""Rows of programs, schedules and pauses, and the records that they mean."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from streamsched.codec.schedules.schedule import program_from_json, schedule_from_json
from streamsched.domain.errors import ConfigurationError, InvalidError
from streamsched.domain.names import AppRef, ProgramRef
from streamsched.domain.schedules.pause import Pause, PauseMode
from streamsched.domain.schedules.schedule import Program, ScheduleRecord
from streamsched.store.catalog.app_expectations import read_expectations
from streamsched.store.catalog.program_links import LinkRow, links_of
from streamsched.store.catalog.records import LARGE, AppExpectations, AppRecord, ForeignWait
from streamsched.store.connections import Connection
from streamsched.store.sql import Select, queries

_SQL: Final = queries("catalog/catalog")


class ProgramRow(NamedTuple):
    """A program."""

    id: str
    definition: Any


class ScheduleRow(NamedTuple):
    """A schedule and its pause: `mode`, `until` and `note`, which are NULL without one."""

    id: str
    definition: Any
    generation: int
    enabled: bool
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    kept_in: int | None
    kept_from: int | None
    resumed_at: datetime | None
    affinity: int | None
    mode: str | None
    until: datetime | None
    note: str | None


class _PauseRow(NamedTuple):
    """A pause of a generation of a schedule."""

    schedule: str
    generation: int
    mode: str
    until: datetime | None
    note: str


class _Origin(NamedTuple):
    origin: str
    forgotten: int


PROGRAMS_OF_APP: Final = Select(_SQL["programs_of_app"], ProgramRow)
SCHEDULES_OF_APP: Final = Select(_SQL["schedules_of_app"], ScheduleRow)
_PAUSES: Final = Select(_SQL["pauses"], _PauseRow)
_ORIGIN: Final = Select(_SQL["origin"], _Origin)


@dataclass(frozen=True, slots=True)
class AppRows:
    """What is stored of an app, undecoded: rows of its `programs`, of `schedules` of it and of others, and `links`."""

    app: AppRef
    programs: Sequence[ProgramRow]
    schedules: Sequence[ScheduleRow]
    pauses: Sequence[_PauseRow]
    origin: str
    forgotten: int
    foreign_waits: Sequence[ForeignWait]
    links: Sequence[LinkRow]
    watched: AppExpectations

    @property
    def is_large(self) -> bool:
        """Whether it is decoded and decided on in a thread: thousands of schedules or programs take seconds."""
        return max(len(self.schedules), len(self.programs), len(self.links)) > LARGE

    async def record(self) -> AppRecord:
        """`decode`, outside a transaction."""
        return await asyncio.to_thread(self.decode) if self.is_large else self.decode()

    def decode(self) -> AppRecord:
        """The input of a decision."""
        programs = {program.ref: program for program in (stored_program(row.definition) for row in self.programs)}
        pauses = {(row.schedule, row.generation): row for row in self.pauses}
        schedules = [
            row if (pause := pauses.get((row.id, row.generation))) is None else ScheduleRow(*row[:11], *pause[2:])
            for row in self.schedules
        ]
        records = [schedule_record(row) for row in schedules]
        own = {record.definition.ref: record for record in records if record.definition.ref.owner == self.app}
        others = {record.definition.ref: record for record in records if record.definition.ref not in own}
        links = tuple(links_of(self.links))
        return AppRecord(
            self.app, programs, own, others, self.foreign_waits, self.origin, links, self.watched, self.forgotten
        )


async def read_app_rows(
    connection: Connection,
    app: AppRef,
    programs: Sequence[ProgramRow],
    schedules: Sequence[ScheduleRow],
    foreign_waits: Sequence[ForeignWait] = (),
    *,
    links: Sequence[LinkRow] = (),
    whole: bool,
) -> AppRows:
    """With the pauses of the schedules, and the origin of the app; with `whole` also with what it expects."""
    pauses = await _PAUSES.fetch(connection, [row.id for row in schedules])
    stored = await _ORIGIN.fetchrow(connection, str(app)) or _Origin("", 0)
    watched = await read_expectations(connection, app) if whole else AppExpectations()
    return AppRows(app, programs, schedules, pauses, *stored, foreign_waits, links, watched)


def schedule_record(row: ScheduleRow) -> ScheduleRecord:
    """The schedule of a row.

    Raises:
        ConfigurationError: this release cannot read it.
    """
    with _refuse_unreadable("schedule"):
        definition = schedule_from_json(row.definition)
    return ScheduleRecord(
        definition,
        row.generation,
        row.enabled,
        row.created_at,
        row.updated_at,
        row.deleted_at,
        kept_from=row.kept_from if row.kept_in == row.generation != row.kept_from else None,
        pause=None if row.mode is None else Pause(PauseMode(row.mode), row.until, row.note or ""),
        resumed_at=row.resumed_at,
        affinity=row.affinity,
    )


def stored_program(definition: Any) -> Program:
    """A program from its stored definition.

    Raises:
        ConfigurationError: this release cannot read it.
    """
    with _refuse_unreadable("program"):
        return program_from_json(definition)


@contextmanager
def _refuse_unreadable(kind: str) -> Iterator[None]:
    """Turns `InvalidError` into `ConfigurationError`: the definition was stored, so no caller's input is wrong."""
    try:
        yield
    except InvalidError as exc:
        raise ConfigurationError(
            f"a stored {kind} cannot be read by this release, a newer one may have written it: {exc}"
        ) from exc


def missing_programs(rows: Sequence[ProgramRow], wanted: Collection[ProgramRef] | None) -> set[ProgramRef]:
    """The programs of the rows that are not wanted; none when nothing is said about them."""
    return set() if wanted is None else {ProgramRef.parse(row.id) for row in rows} - set(wanted)
