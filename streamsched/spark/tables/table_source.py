"""Commits of a table, whatever its format: the partitions a commit added, and the events it becomes.

Ids of events are made from the table's versions, so a commit that is announced twice counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from streamsched.domain.events.event import Partition
from streamsched.emit.draft import hive_key, hive_values


class AddedFile(NamedTuple):
    """A data file of a commit: partition column → value (None is null), bytes, and rows where they are known."""

    values: Mapping[str, str | None]
    bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class TableCommit:
    """A commit that added data.

    Attributes:
        id: of its event, made from the table's version.
        at: when it was committed, UTC; None when the table does not say.
        partitions: those it added files to, with the bytes and rows of this commit alone. A table without partition
            columns has one for each commit, such as `version=12`.
        run: the run that made it; "" when another program did.
    """

    id: str
    at: datetime | None
    partitions: tuple[Partition, ...]
    run: str = ""

    @property
    def rows(self) -> int:
        """Of all partitions, as far as they are known."""
        return sum(each.rows or 0 for each in self.partitions)

    @property
    def bytes(self) -> int:
        """Of all partitions."""
        return sum(each.bytes or 0 for each in self.partitions)


@dataclass(frozen=True, slots=True)
class LogStep:
    """One commit in the order of the table's log.

    Attributes:
        position: of the source, after this commit; None: repeat the commits since the last position instead.
        commit: None when it added no data: a compaction, a deletion of whole files, a change of the schema.
        note: what a person should know about it; "" mostly.
    """

    position: str | None
    commit: TableCommit | None
    note: str = ""


class TableSource(Protocol):
    """The log of one table. A position is a text of the source's own format; "" is before the first commit.

    Every method raises `NotFoundError` when there is no such table, `ConfigurationError` when access is denied or a
    package is missing, `UnavailableError` when the storage does not answer, `DecodeError` when the log is damaged.
    """

    @property
    def location(self) -> str:
        """The table's place, for messages."""
        ...

    def head(self, back: int = 0) -> str:
        """The position after the newest commit, or so many commits before that."""
        ...

    def steps_after(self, position: str) -> Iterator[LogStep]:
        """The commits after the position, oldest first.

        Raises:
            ConflictError: the position belongs to another table.
        """
        ...


def added_partitions(files: Iterable[AddedFile], unpartitioned: str) -> tuple[Partition, ...]:
    """The partitions of these files, each once, in order of the files. `unpartitioned`: the key of files without
    partition values.
    """
    found: dict[str, tuple[int, int | None]] = {}
    for file in files:
        key = hive_key(file.values) or unpartitioned
        size, rows = found.get(key, (0, 0))
        found[key] = size + file.bytes, None if rows is None or file.rows is None else rows + file.rows
    return tuple(Partition(key, hive_values(key), size, rows) for key, (size, rows) in found.items())
