"""Expectations and recipients of apps, written in the transaction of a deployment."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final

import asyncpg

from streamsched.codec.schedules.expectation import expectation_to_json, stored_expectation
from streamsched.codec.schedules.recipient import recipient_to_json, stored_recipient
from streamsched.domain.errors import ConfigurationError, InvalidError
from streamsched.domain.expectations.expectation import Expectation
from streamsched.domain.names import AppRef, ExpectationRef
from streamsched.domain.notices.recipient import Recipient
from streamsched.domain.revision import digest
from streamsched.domain.ticks.watched_expectation import changed, watched_from
from streamsched.ports.schedules.expectations import AppExpectations, ExpectationChange, RecipientsChange
from streamsched.store.catalog.expectation_rows import due_columns, watched_of
from streamsched.store.connections import Connection, translated
from streamsched.store.sql import queries, slices

_SQL: Final = queries("catalog/app_expectations")


async def watched_by(connection: Connection, app: AppRef) -> AppExpectations:
    """What an app expects, and who is notified.

    Raises:
        ConfigurationError: this release cannot read one.
    """
    rows = await connection.fetch(_SQL["expectations"], str(app))
    listed = await connection.fetch(_SQL["recipients"], str(app))
    try:
        expectations = [stored_expectation(row["definition"], app) for row in rows]
        recipients = tuple(stored_recipient(row["definition"]) for row in listed)
    except InvalidError as exc:
        raise ConfigurationError(
            f"a stored expectation cannot be read by this release, a newer one may have written it: {exc}"
        ) from exc
    stopped = frozenset(each.ref for each, row in zip(expectations, rows, strict=True) if row["stopped"] is not None)
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
        await _put(connection, app, part, now)
    if stored:
        await connection.execute(_SQL["ring"])
    if recipients is not None:
        definitions = {recipient_id(app, each): recipient_to_json(each) for each in recipients.after}
        await connection.execute(_SQL["keep_recipients"], str(app), list(definitions))
        await connection.execute(_SQL["put_recipients"], str(app), list(definitions), list(definitions.values()))


async def _put(connection: Connection, app: AppRef, expectations: Sequence[Expectation], now: datetime) -> None:
    ids = [str(each.ref) for each in expectations]
    former = {row["id"]: row for row in await connection.fetch(_SQL["lock"], ids)}
    begun: list[str] = []
    rows: list[tuple[Any, ...]] = []
    for each in expectations:
        before = former.get(str(each.ref))
        known = None if before is None or before["stopped"] is not None else watched_of(before)
        watched = watched_from(each, now) if known is None else changed(known, each, now)
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


class PostgresExpectationGrants:
    """See `ports.schedules.expectations.ExpectationGrants`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def listeners(self, namespace: str, owner: str) -> Sequence[Expectation]:
        with translated():
            rows = await self._pool.fetch(_SQL["foreign_subjects"], namespace, owner)
        return [stored_expectation(row["definition"], ExpectationRef.parse(row["id"]).owner) for row in rows]

    async def stop(self, refs: Collection[ExpectationRef], reason: str) -> None:
        with translated():
            await self._pool.execute(_SQL["stop"], [str(each) for each in refs], reason)
