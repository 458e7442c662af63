"""Expectations as API, CLI and UI read them. Times are UTC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import structlog

from streamsched.domain.errors import NotFoundError, describe_failure
from streamsched.domain.expectations.expectation import Expectation, SubjectKind
from streamsched.domain.names import AppRef, ExpectationRef
from streamsched.domain.ticks.watched_expectation import WatchedExpectation
from streamsched.domain.time.duration import duration_text
from streamsched.store.catalog.app_expectations import ExpectationRow, watched_expectation
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.sql import Select, queries

log = structlog.get_logger()

_SQL: Final = queries("expectations/records")


class StoredMiss(NamedTuple):
    """A due time at which something was not there.

    Attributes:
        key: the partition or key that was missing; "": any would have done.
        found_at: when it was judged.
        announced: whether it was announced; of several due times that had passed only the newest is.
        open: whether it may still come.
        came_at: when it came; None: it has not.
    """

    due_at: datetime
    key: str
    reason: str
    found_at: datetime
    announced: bool
    open: bool
    came_at: datetime | None

    @property
    def late_seconds(self) -> float | None:
        """How late it came; None: it has not."""
        return None if self.came_at is None else max(0.0, (self.came_at - self.due_at).total_seconds())


@dataclass(frozen=True, slots=True)
class ExpectationRecord:
    """An expectation as it is shown.

    Attributes:
        seen_at: when its subject came last, as far as that is known; None: not since it is watched.
        open_misses: due times at which it was missing and may still come.
        last_miss: the newest one; None: there is none.
        stopped: why it is not judged any more; "": it is.
    """

    watched: WatchedExpectation
    created_at: datetime
    changed_at: datetime
    seen_at: datetime | None
    open_misses: int
    last_miss: StoredMiss | None
    stopped: str

    @property
    def expectation(self) -> Expectation:
        """Its definition."""
        return self.watched.expectation

    @property
    def state(self) -> str:
        """`stopped`, `missing`, `learning` (its usual time is not known yet) or `met`."""
        if self.stopped:
            return "stopped"
        if self.open_misses:
            return "missing"
        due = self.watched.due
        return "learning" if due is not None and due.learning else "met"

    @property
    def usual(self) -> str:
        """By when it usually is there, from the start of its period; "" when that is not known."""
        usual = self.watched.usual_delay
        if usual is None:
            return ""
        side = "before" if usual.total_seconds() < 0 else "after"
        return f"{duration_text(abs(usual))} {side} the {self.expectation.every} begins"


class _ReadExpectation(NamedTuple):
    """The columns of `ExpectationRow`, when its subject came last, and the fields of its newest miss, which are NULL
    without one.
    """

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
    created_at: datetime
    changed_at: datetime
    seen_at: datetime | None
    missed_due_at: datetime | None
    missed_key: str
    missed_reason: str
    missed_found_at: datetime
    missed_announced: bool
    missed_open: bool
    missed_came_at: datetime | None


_PAGE: Final = Select(_SQL["page"], _ReadExpectation)
_SOME: Final = Select(_SQL["some"], _ReadExpectation)
_MISSES: Final = Select(_SQL["misses"], StoredMiss)


class ExpectationReader:
    """Reads for API, CLI and UI. All methods raise `UnavailableError` when PostgreSQL is unavailable."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def page(
        self,
        *,
        namespace: str | None = None,
        app: AppRef | None = None,
        missing: bool = False,
        after: str = "",
        limit: int,
    ) -> Sequence[ExpectationRecord]:
        """At most `limit` of those after the id `after`, ordered by id; with `missing` those with an open miss. One
        that this release cannot read is left out, and logged.
        """
        with translate_errors():
            rows = await _PAGE.fetch(self._pool, namespace, app and str(app), missing, after, limit)
        return _records(rows)

    async def list_about(self, kind: SubjectKind, subject: str, *, limit: int) -> Sequence[ExpectationRecord]:
        """Those about a dataset or schedule, of all namespaces, ordered by id."""
        with translate_errors():
            ids = [name for (name,) in await self._pool.fetch(_SQL["about"], kind.value, subject, limit)]
            return _records(await _SOME.fetch(self._pool, ids)) if ids else []

    async def get(self, ref: ExpectationRef) -> ExpectationRecord:
        """The expectation with its last miss.

        Raises:
            NotFoundError: there is none.
        """
        with translate_errors():
            found = _records(await _SOME.fetch(self._pool, [str(ref)]))
        if not found:
            raise NotFoundError("expectation", str(ref))
        return found[0]

    async def misses(self, ref: ExpectationRef, *, limit: int) -> Sequence[StoredMiss]:
        """The newest misses of an expectation, newest first."""
        with translate_errors():
            return await _MISSES.fetch(self._pool, str(ref), limit)


def _records(rows: Sequence[_ReadExpectation]) -> list[ExpectationRecord]:
    found: list[ExpectationRecord] = []
    for row in rows:
        try:
            watched = watched_expectation(ExpectationRow(*row[:11]))
        except Exception as failure:  # noqa: BLE001 - its definition may hold anything; the others are listed
            log.error("expectation.unreadable", expectation=row.id, reason=describe_failure(failure))
            continue
        miss = None if row.missed_due_at is None else StoredMiss(row.missed_due_at, *row[15:])
        stopped = row.stopped or ""
        found.append(
            ExpectationRecord(watched, row.created_at, row.changed_at, row.seen_at, row.open_misses, miss, stopped)
        )
    return found
