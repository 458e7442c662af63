"""Expectations and recipients of apps, written in the transaction of a deployment."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from streamsched.codec.schedules.expectation import expectation_from_json, expectation_to_json
from streamsched.codec.schedules.recipient import recipient_from_json, recipient_to_json
from streamsched.domain.errors import ConfigurationError, InvalidError
from streamsched.domain.expectations.expectation import Expectation
from streamsched.domain.names import AppRef, ExpectationRef
from streamsched.domain.notices.recipient import Recipient
from streamsched.domain.revision import digest
from streamsched.domain.ticks.due_times import DueTime
from streamsched.domain.ticks.watched_expectation import WatchedExpectation, begin_watch, change_expectation
from streamsched.store.catalog.records import LARGE, AppExpectations, ExpectationChange, RecipientsChange
from streamsched.store.connections import Connection, Executor, Pool, translate_errors
from streamsched.store.sql import Select, queries, slices

_SQL: Final = queries("catalog/app_expectations")
_SECOND: Final = timedelta(seconds=1)


class ExpectationRow(NamedTuple):
    """An expectation with what was seen for it. `starts`: local time. `recent`: seconds."""

    id: str
    app: str
    definition: Any
    since: datetime
    due_at: datetime | None
    starts: datetime | None
    opens_at: datetime | None
    learning: bool
    recent: list[int]
    open_misses: int
    stopped: str | None


def watched_expectation(row: ExpectationRow) -> WatchedExpectation:
    """The expectation of a row, with what has been seen of it.

    Raises:
        DecodeError, InvalidDefinitionError: a later release has stored it.
    """
    expectation = expectation_from_json(row.definition, app=AppRef.parse(row.app))
    due = None
    if row.due_at is not None and row.starts is not None:
        due = DueTime(row.due_at, row.starts, row.opens_at, row.learning)
    return WatchedExpectation(expectation, row.since, due, tuple(each * _SECOND for each in row.recent))


def due_columns(watched: WatchedExpectation) -> tuple[Any, ...]:
    """The columns since, due_at, starts, opens_at, learning, and recent as a literal of an array."""
    due = watched.due
    seconds = ",".join(str(each // _SECOND) for each in watched.recent)
    if due is None:
        return watched.since, None, None, None, False, f"{{{seconds}}}"
    return watched.since, due.at, due.start, due.opens_at, due.learning, f"{{{seconds}}}"


class _OwnExpectation(NamedTuple):
    """An expectation of an app."""

    id: str
    definition: Any
    stopped: str | None


class _ForeignExpectation(NamedTuple):
    """An expectation about a dataset of another namespace."""

    id: str
    definition: Any


_OWN: Final = Select(_SQL["expectations"], _OwnExpectation)
_LOCKED: Final = Select(_SQL["lock"], ExpectationRow)
_FOREIGN: Final = Select(_SQL["foreign_subjects"], _ForeignExpectation)


async def read_expectations(executor: Executor, app: AppRef) -> AppExpectations:
    """What an app expects, and who is notified.

    Raises:
        ConfigurationError: this release cannot read one.
    """
    rows = await _OWN.fetch(executor, str(app))
    listed = [definition for (definition,) in await executor.fetch(_SQL["recipients"], str(app))]
    if len(rows) > LARGE:
        return await asyncio.to_thread(_decode, app, rows, listed)
    return _decode(app, rows, listed)


def _decode(app: AppRef, rows: Sequence[_OwnExpectation], listed: Sequence[Any]) -> AppExpectations:
    try:
        expectations = [expectation_from_json(row.definition, app=app) for row in rows]
        recipients = tuple(map(recipient_from_json, listed))
    except InvalidError as exc:
        raise ConfigurationError(
            f"a stored expectation cannot be read by this release, a newer one may have written it: {exc}"
        ) from exc
    stopped = frozenset(each.ref for each, row in zip(expectations, rows, strict=True) if row.stopped is not None)
    return AppExpectations({each.ref: each for each in expectations}, recipients, stopped)


async def write(
    connection: Connection,
    app: AppRef,
    changes: Sequence[ExpectationChange],
    recipients: RecipientsChange | None,
    now: datetime,
) -> None:
    """Writes the changes of an app, which is locked."""
    removed = [str(each.ref) for each in changes if each.after is None]
    if removed:
        await connection.execute(_SQL["remove"], removed)
    stored = [each.after for each in changes if each.after is not None]
    for part in slices(stored):
        await _store_expectations(connection, app, part, now)
    if stored:
        await connection.execute(_SQL["ring"])
    if recipients is not None:
        definitions = {recipient_id(app, each): recipient_to_json(each) for each in recipients.after}
        await connection.execute(_SQL["keep_recipients"], str(app), list(definitions))
        await connection.execute(_SQL["put_recipients"], str(app), list(definitions), list(definitions.values()))


async def _store_expectations(
    connection: Connection, app: AppRef, expectations: Sequence[Expectation], now: datetime
) -> None:
    ids = [str(each.ref) for each in expectations]
    former = {row.id: row for row in await _LOCKED.fetch(connection, ids)}
    begun: list[str] = []
    rows: list[tuple[Any, ...]] = []
    for each in expectations:
        before = former.get(str(each.ref))
        known = None if before is None or before.stopped is not None else watched_expectation(before)
        watched = begin_watch(each, now) if known is None else change_expectation(known, each, now)
        if before is not None and (known is None or not known.expectation.same_course(each)):
            begun.append(str(each.ref))
        kind = each.kind.value
        rows.append((str(each.ref), kind, str(each.subject), expectation_to_json(each), *due_columns(watched)))
    if begun:
        await connection.execute(_SQL["close_misses"], begun)
    names, kinds, subjects, definitions, *due = (list(column) for column in zip(*rows, strict=True))
    await connection.execute(_SQL["put"], names, str(app), kinds, subjects, now, definitions, *due)


def recipient_id(app: AppRef, recipient: Recipient) -> str:
    """Names a recipient of an app; another definition has another id."""
    return f"{app}.{digest([recipient_to_json(recipient)])}"


class ExpectationGrants:
    """What the end of a grant means for expectations. All methods raise `UnavailableError` when PostgreSQL is
    unavailable.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_foreign(self, namespace: str, owner: str) -> Sequence[Expectation]:
        """Expectations of a namespace about datasets of another one, which are judged."""
        with translate_errors():
            rows = await _FOREIGN.fetch(self._pool, namespace, owner)
        return [expectation_from_json(row.definition, app=ExpectationRef.parse(row.id).owner) for row in rows]

    async def stop(self, refs: Collection[ExpectationRef], reason: str) -> None:
        """Ends their evaluation until they are deployed again. Idempotent."""
        with translate_errors():
            await self._pool.execute(_SQL["stop"], [str(each) for each in refs], reason)
