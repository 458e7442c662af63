"""Expectations as they are stored: for deployments, for people, and for those who judge them. Times are UTC."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from streamsched.domain.expectations.expectation import Expectation, SubjectKind
from streamsched.domain.expectations.miss import ExpectationMiss, LateCame
from streamsched.domain.names import AppRef, ExpectationRef
from streamsched.domain.notices.recipient import Recipient
from streamsched.domain.ticks.watched_expectation import WatchedExpectation
from streamsched.ports.intake import IntakeStore


@dataclass(frozen=True, slots=True)
class AppExpectations:
    """What an app expects, and who is notified of its failures.

    Attributes:
        stopped: the expectations that are not judged any more, until they are deployed again.
    """

    expectations: Mapping[ExpectationRef, Expectation] = field(default_factory=dict)
    recipients: tuple[Recipient, ...] = ()
    stopped: frozenset[ExpectationRef] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.expectations or self.recipients)


NO_EXPECTATIONS: Final = AppExpectations()


class ExpectationChange(NamedTuple):
    """An expectation that is stored (`before` None: a new one) or removed (`after` None)."""

    before: Expectation | None
    after: Expectation | None

    @property
    def ref(self) -> ExpectationRef:
        found = self.after or self.before
        assert found is not None
        return found.ref

    @property
    def action(self) -> str:
        """As of `ports.catalog.Action`."""
        return "created" if self.before is None else "deleted" if self.after is None else "updated"


class RecipientsChange(NamedTuple):
    """Who is notified before and after a change."""

    before: tuple[Recipient, ...]
    after: tuple[Recipient, ...]


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


class ExpectationReader(Protocol):
    """Reads for API, CLI and UI. All methods raise `UnavailableError` when PostgreSQL is unavailable."""

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
        ...

    async def of_subject(self, kind: SubjectKind, subject: str, *, limit: int) -> Sequence[ExpectationRecord]:
        """Those about a dataset or schedule, of all namespaces, ordered by id."""
        ...

    async def get(self, ref: ExpectationRef) -> ExpectationRecord:
        """Raises:
        NotFoundError: there is none.
        """
        ...

    async def misses(self, ref: ExpectationRef, *, limit: int) -> Sequence[StoredMiss]:
        """The newest misses of an expectation, newest first."""
        ...


class ExpectationGrants(Protocol):
    """What the end of a grant means for expectations. All methods raise `UnavailableError` when PostgreSQL is
    unavailable.
    """

    async def listeners(self, namespace: str, owner: str) -> Sequence[Expectation]:
        """Expectations of a namespace about datasets of another one, which are judged."""
        ...

    async def stop(self, refs: Collection[ExpectationRef], reason: str) -> None:
        """Ends their evaluation until they are deployed again. Idempotent."""
        ...


class Judged(NamedTuple):
    """What one transaction has judged: the number of expectations, and of misses and what came late those that are
    announced.
    """

    expectations: int
    misses: Sequence[ExpectationMiss]
    came: Sequence[LateCame]


class ExpectationStore(Protocol):
    """Stored expectations. Any number of instances may judge them; each due time is judged once. All methods raise
    `UnavailableError` when PostgreSQL is unavailable.
    """

    async def judge(self, *, now: datetime, limit: int) -> Judged:
        """Judges expectations that are due, those due longest first, and those for whose misses something came; skips
        those that another instance has locked. What follows (history, event, program) is part of the transaction. A
        due time is judged when all that came up to then is known to have been read.
        """
        ...

    async def next_due(self) -> datetime | None:
        """The earliest due time."""
        ...


@dataclass(frozen=True, slots=True)
class Evidence:
    """A commit of a dataset, or a completed run of a schedule.

    Attributes:
        mark: the same for a repeat of the event.
        at: when the log had it, or when the run ended.
        values: the columns of each partition, or of the key of the job.
    """

    kind: SubjectKind
    subject: str
    mark: bytes
    at: datetime
    values: Sequence[Mapping[str, str]] = ()


class EvidenceStore(IntakeStore[Evidence | None], Protocol):
    """Stores evidence of what is expected, and drops the rest. All methods raise `UnavailableError` when PostgreSQL is
    unavailable.
    """

    async def expects(self, kind: SubjectKind) -> bool:
        """Whether an expectation is about something of a kind."""
        ...

    async def read_to(self, kind: SubjectKind, at: datetime) -> None:
        """All of a kind that came up to `at` is stored."""
        ...

    async def begin(self, topic: str, positions: Mapping[int, int]) -> None:
        """Stores positions to begin at, unless there are some already."""
        ...

    async def end(self, topic: str) -> None:
        """Nothing reads the topic any more: its positions are removed. Idempotent."""
        ...

    async def forget(self, *, now: datetime) -> int:
        """Deletes evidence and misses that nothing needs any more; returns how many rows."""
        ...


class CompletionStore(Protocol):
    """The history of runs, as evidence."""

    async def take(self, *, now: datetime, limit: int) -> int:
        """Stores the evidence of the next lines of the history about completed runs of schedules that are expected,
        with the position, in one transaction. Returns how many lines were read; fewer than `limit`: all are read that
        were there at `now`, as far as they are settled.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        ...
