"""One transaction that judges locked expectations: what came for former misses, then one due time of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from streamsched.codec import event as event_codec
from streamsched.domain.events.event import Event
from streamsched.domain.expectations.expectation import Expectation, SubjectKind
from streamsched.domain.expectations.miss import ExpectationMiss, LateCame
from streamsched.domain.expectations.presence import Awaited
from streamsched.domain.history import HistoryEntry
from streamsched.domain.names import ProgramRef
from streamsched.domain.ticks.due_times import DueTime
from streamsched.domain.ticks.watched_expectation import (
    MissedDue,
    Settled,
    WatchedExpectation,
    came_late,
    settle_due_time,
)
from streamsched.log.topics import public_topic
from streamsched.ports.outbox import OutboxRecord
from streamsched.store.catalog import outbox
from streamsched.store.catalog.app_expectations import ExpectationRow, due_columns, watched_expectation
from streamsched.store.catalog.history import record_all
from streamsched.store.connections import Connection
from streamsched.store.runs import manual_runs
from streamsched.store.sql import Select, queries

_SQL: Final = queries("expectations/judgement")
#: Misses of an expectation that may still come; older ones are not looked for any more.
MOST_OPEN: Final = 100
_PREFIX: Final = "expectation."


class Judged(NamedTuple):
    """What one transaction has judged: the number of expectations, and of misses and what came late those that are
    announced.
    """

    expectations: int
    misses: Sequence[ExpectationMiss]
    came: Sequence[LateCame]


class _OpenMiss(NamedTuple):
    """A due time whose subject may still come."""

    expectation: str
    due_at: datetime
    starts: datetime
    key: str
    announced: bool


class _ScheduleState(NamedTuple):
    """What may hold up a schedule. `note`: of its pause."""

    id: str
    deleted_at: datetime | None
    enabled: bool
    note: str | None
    paused: bool


_OPEN_MISSES: Final = Select(_SQL["open_misses"], _OpenMiss)
_SCHEDULES: Final = Select(_SQL["schedules"], _ScheduleState)


class ExpectationTurn:
    """Belongs to one transaction. `definitions`: of the locked programs that misses may start; None: it was removed."""

    def __init__(
        self,
        connection: Connection,
        rows: Sequence[ExpectationRow],
        definitions: Mapping[ProgramRef, Any],
        until: Mapping[SubjectKind, datetime],
        now: datetime,
    ) -> None:
        self._connection = connection
        self._definitions = definitions
        self._until = until
        self._now = now
        self._watched: dict[str, WatchedExpectation] = {row.id: watched_expectation(row) for row in rows}
        self._opened = [row.id for row in rows if row.open_misses > 0]
        self._came_already = set[str]()
        self._history: list[HistoryEntry] = []
        self._events: list[Event] = []

    async def judge(self) -> Judged:
        """Judges, and stores what follows."""
        came = await self._find_late()
        misses = await self._settle()
        await self._advance()
        await record_all(self._connection, self._history)
        records = [OutboxRecord(public_topic(each.fact), each.key, event_codec.encode(each)) for each in self._events]
        await outbox.write(self._connection, records)
        for miss in misses:
            await self._start(miss)
        return Judged(len(self._watched), misses, came)

    async def _find_late(self) -> list[LateCame]:
        """What has come for former misses, in the order of their due times."""
        if not self._opened:
            return []
        missed: list[tuple[str, MissedDue, bool]] = []
        for row in await _OPEN_MISSES.fetch(self._connection, self._opened):
            expectation = self._watched[row.expectation].expectation
            awaited = Awaited(expectation.kind, str(expectation.subject), row.key, row.due_at)
            missed.append((row.expectation, MissedDue(DueTime(row.due_at, row.starts), awaited), row.announced))
        firsts = await self._find_first(each.awaited for _, each, _ in missed)
        found: list[LateCame] = []
        announced: list[LateCame] = []
        for (ref, each, said), first in zip(missed, firsts, strict=True):
            self._watched[ref], came = came_late(self._watched[ref], each, first)
            if came is not None:
                found.append(came)
                announced += [came] if said else []
        if found:
            columns = zip(*((str(each.expectation.ref), each.due_at, each.came_at) for each in found), strict=True)
            await self._connection.execute(_SQL["came"], *map(list, columns))
        for came in announced:
            self._say(came.expectation, "expectation.met_late", came.reason, came.facts, came.event(self._now))
        return announced

    async def _settle(self) -> list[ExpectationMiss]:
        """Judges one due time of each expectation that has one; returns the misses to announce."""
        awaited: dict[str, Awaited] = {}
        for ref, each in self._watched.items():
            until, wanted = self._until.get(each.expectation.kind), each.expected_next
            if each.due is not None and wanted is not None and until is not None and each.due.at <= until:
                awaited[ref] = wanted
        if not awaited:
            return []
        firsts = dict(zip(awaited, await self._find_first(awaited.values()), strict=True))
        late = [self._watched[ref] for ref, first in firsts.items() if self._is_late(ref, first)]
        why = await self._find_reasons(late)
        outcomes = {
            ref: settle_due_time(self._watched[ref], first, self._now, why=why.get(ref, ""))
            for ref, first in firsts.items()
        }
        missed = {ref: each for ref, each in outcomes.items() if each.miss is not None}
        self._came_already = {ref for ref in missed if firsts[ref] is not None}
        await self._store_misses(missed)
        kept = [ref for ref, each in outcomes.items() if each.miss is None and ref in self._opened]
        if kept:
            await self._connection.execute(_SQL["close_met"], kept)
        for ref, each in outcomes.items():
            if each.skipped:
                skipped = "due times that passed long ago are not judged: no launcher did when they were due"
                self._history.append(HistoryEntry(self._now, "expectation", ref, "expectation.skipped", skipped))
            self._watched[ref] = each.next
        misses = [each.miss for each in outcomes.values() if each.miss is not None and each.announced]
        for miss in misses:
            self._say(miss.expectation, "expectation.missed", miss.reason, miss.facts, miss.event(self._now))
        return misses

    def _is_late(self, ref: str, first: datetime | None) -> bool:
        due = self._watched[ref].due
        return due is not None and not due.learning and (first is None or first > due.at)

    async def _store_misses(self, missed: Mapping[str, Settled]) -> None:
        rows = [
            (ref, miss.due_at, due.start, miss.key, miss.reason, each.announced)
            for ref, each in missed.items()
            if (miss := each.miss) is not None and (due := self._watched[ref].due) is not None
        ]
        if rows:
            await self._connection.execute(_SQL["miss"], *map(list, zip(*rows, strict=True)), self._now)
            await self._connection.execute(_SQL["close"], list(missed), MOST_OPEN - 1)

    async def _advance(self) -> None:
        rows = [(ref, *due_columns(each), ref in self._came_already) for ref, each in self._watched.items()]
        if rows:
            await self._connection.execute(_SQL["advance"], *map(list, zip(*rows, strict=True)))

    async def _find_first(self, awaited: Iterable[Awaited]) -> list[datetime | None]:
        listed = list(awaited)
        if not listed:
            return []
        columns = zip(*listed, strict=True)
        return [at for (at,) in await self._connection.fetch(_SQL["first_evidence"], *map(list, columns))]

    async def _find_reasons(self, missed: Sequence[WatchedExpectation]) -> Mapping[str, str]:
        """What is known about expectations that are missed: when something came last, and what holds up a schedule."""
        asked = [(each.expectation, each.due.at) for each in missed if each.due is not None]
        if not asked:
            return {}
        columns = zip(*((each.kind.value, str(each.subject), due_at) for each, due_at in asked), strict=True)
        seen = [at for (at,) in await self._connection.fetch(_SQL["seen"], *map(list, columns))]
        schedules = sorted({str(each.subject) for each, _ in asked if each.kind is SubjectKind.SCHEDULE})
        rows = await _SCHEDULES.fetch(self._connection, schedules) if schedules else ()
        held = {row.id: _reason_held(row) for row in rows}
        return {
            str(each.ref): _miss_reason(each, held.get(str(each.subject), "it does not exist"), at)
            for (each, _), at in zip(asked, seen, strict=True)
        }

    def _say(self, expectation: Expectation, action: str, reason: str, facts: Mapping[str, str], event: Event) -> None:
        self._history.append(HistoryEntry(self._now, "expectation", str(expectation.ref), action, reason, dict(facts)))
        self._events.append(event)

    async def _start(self, miss: ExpectationMiss) -> None:
        """Starts the expectation's program, with the facts of the miss as arguments."""
        program, ref = miss.expectation.reaction, str(miss.expectation.ref)
        if program is None:
            return
        definition = self._definitions.get(program)
        if definition is None:
            why = f"{program} is not started: it was removed, or the expectation was changed at this moment"
            await record_all(
                self._connection, [HistoryEntry(self._now, "expectation", ref, "expectation.unanswered", why)]
            )
            return
        name, why = (
            f"missed-{miss.expectation.ref.name}-{miss.due_at:%Y%m%dT%H%M%SZ}",
            f"{ref} was missed: {miss.reason}",
        )
        run = await manual_runs.answer(
            self._connection, program, definition, name, miss.facts, prefix=_PREFIX, why=why, now=self._now
        )
        answered = HistoryEntry(self._now, "expectation", ref, "expectation.answered", f"run {run}")
        await record_all(self._connection, [answered])


def _reason_held(row: _ScheduleState) -> str:
    """Why a schedule may not run; empty when it may."""
    if row.deleted_at is not None:
        return "it was deleted"
    if row.enabled:
        return ""
    note = f": {row.note}" if row.note else ""
    return f"it is paused{note}" if row.paused else "it is disabled"


def _miss_reason(expectation: Expectation, held: str, seen: datetime | None) -> str:
    last = "" if seen is None else f"the last one came at {seen:%Y-%m-%d %H:%M:%S}Z"
    parts = (held if expectation.kind is SubjectKind.SCHEDULE else "", last)
    return ", ".join(part for part in parts if part)
