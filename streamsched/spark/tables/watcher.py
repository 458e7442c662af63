"""Turns the commits of a table after the last seen one into events, each once.

    read the bookmark ──▶ for each commit after it: emit its event ──▶ set the bookmark

A process that is killed between the event and the bookmark repeats the event with its id, which counts once within the
dedupe horizon. Any number of watchers, and jobs that announce, may work on one dataset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from streamsched.domain.datasets.bookmark import watch_bookmark
from streamsched.domain.errors import ConflictError, RefusedError
from streamsched.domain.events.event import Event
from streamsched.domain.names import DatasetRef
from streamsched.emit.client import Emitted
from streamsched.emit.draft import EventDraft, commit_events
from streamsched.spark.tables.table_source import TableCommit, TableSource


class First(StrEnum):
    """Where to begin on a dataset without a bookmark: after the newest commit, with the oldest, or with the newest."""

    NOW = "now"
    START = "start"
    NEWEST = "newest"


class Announcements(Protocol):
    """Emits events; implemented by `Emitter`."""

    def emit(self, *what: EventDraft | Event) -> Emitted:
        """Emits the events, in order; returns what became of them."""
        ...


class Bookmarks(Protocol):
    """Reads and sets bookmarks; implemented by `emit.bookmarks.BookmarkClient`."""

    def get(self, name: str) -> tuple[str, int]:
        """The stored text, "" when there is none, and its revision."""
        ...

    def set(self, name: str, value: str, revision: int) -> int:
        """Stores a text if the revision is still this one, else raises ConflictError; returns the new one."""
        ...


class WatchPhase(StrEnum):
    """Moments of a check; tests end the process there."""

    READ = "read"
    EMITTED = "emitted"
    MARKED = "marked"


@dataclass(frozen=True, slots=True)
class WatchResult:
    """The result of a check of a table.

    Attributes:
        commits: those that were announced, oldest first.
        passed: commits without new data.
        began: whether the bookmark was set for the first time, without an event.
        refused: what the server did not accept; such a commit is passed over.
        notes: what a person should know.
    """

    commits: tuple[TableCommit, ...] = ()
    passed: int = 0
    began: bool = False
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Watcher:
    """Watches one table as one dataset. `emitter` must not spool: an event that is only on this disk is not sent when
    the bookmark says so.
    """

    def __init__(
        self,
        dataset: DatasetRef,
        source: TableSource,
        *,
        bookmarks: Bookmarks,
        emitter: Announcements,
        first: First = First.NOW,
        begin: str | None = None,
        reached: Callable[[WatchPhase], None] = lambda _: None,
    ) -> None:
        """Does no I/O. `begin`: with `First.NEWEST`, the position before the first commit to announce; None: before
        the newest. `reached` is called at each phase.
        """
        self.dataset = dataset
        self._source = source
        self._bookmarks = bookmarks
        self._emitter = emitter
        self._first = first
        self._begin = begin
        self._reached = reached

    @property
    def bookmark(self) -> str:
        """The name of the bookmark."""
        return watch_bookmark(self.dataset)

    def run_once(self) -> WatchResult:
        """Announces all commits after the bookmark.

        Raises:
            UnavailableError: the storage or the server does not answer; what was announced stays so.
            NotFoundError, ConfigurationError, ConflictError, InvalidError: see `TableSource`.
        """
        position, revision = self._bookmarks.get(self.bookmark)
        if revision == 0 and self._first is First.NOW:
            self._bookmarks.set(self.bookmark, self._source.head(), 0)
            return WatchResult(began=True)
        if revision == 0 and self._first is First.NEWEST:
            position = self._source.head(back=1) if self._begin is None else self._begin
        commits: list[TableCommit] = []
        refused: list[str] = []
        notes: list[str] = []
        passed = 0
        for step in self._source.steps_after(position):
            self._reached(WatchPhase.READ)
            notes += [step.note] if step.note else []
            if step.commit is None:
                passed += 1
            elif why := self._announce(step.commit):
                refused.append(f"{step.commit.id}: {why}")
            else:
                commits.append(step.commit)
            self._reached(WatchPhase.EMITTED)
            if step.position is None:
                continue
            following = self._mark(step.position, revision)
            if following is None:
                break
            revision = following
            self._reached(WatchPhase.MARKED)
        return WatchResult(tuple(commits), passed, False, tuple(refused), tuple(notes))

    def _announce(self, commit: TableCommit) -> str:
        """Emits the events of a commit. Returns why they were refused; "" when they were accepted."""
        try:
            parts = commit_events(self.dataset, commit.partitions, event_id=commit.id, time=commit.at, run=commit.run)
            self._emitter.emit(*parts)
        except RefusedError as exc:
            return str(exc)
        return ""

    def _mark(self, position: str, revision: int) -> int | None:
        """The new revision; None when another watcher set the bookmark meanwhile, and goes on from there."""
        try:
            return self._bookmarks.set(self.bookmark, position, revision)
        except ConflictError:
            return None
