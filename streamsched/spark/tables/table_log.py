"""What a write to a table needs of the table's log, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from streamsched.spark.manifest import Mode
from streamsched.spark.tables.table_source import TableCommit
from streamsched.spark.writes.write import Author, Write


class WritePhase(StrEnum):
    """Moments of a write; tests stop the process there.

    STAGED: the data files are written. CHECKED: nothing forbids the commit; only the conditional operation of the
    table's log follows. Reached again when that operation finds another commit in its place.
    """

    STAGED = "staged"
    CHECKED = "checked"
    COMMITTED = "committed"


WriteCallback = Callable[[WritePhase], None]


@dataclass(frozen=True, slots=True)
class WrittenCommit:
    """A commit that a program made by `write`.

    Attributes:
        commit: its partitions, and the id of its event.
        author: None when no run made it.
        work: of the write.
        before: the position of the source before it.
    """

    commit: TableCommit
    mode: Mode
    author: Author | None
    work: str
    before: str


class TableLog(Protocol):
    """One table, the rows to write to it, and the log that they are committed to. Every method raises the errors of
    `table_source.TableSource`.
    """

    def fence(self, author: Author) -> Sequence[Author]:
        """Fences the earlier attempts of a job: none of their commits follows. Returns the authors of the job's commits
        to the dataset that are before it.

        Raises:
            AttemptFencedError: a later attempt has fenced.
        """
        ...

    def find(self, commit: str) -> WrittenCommit | None:
        """The commit with this id; None if there is none."""
        ...

    def publish(self, write: Write, mode: Mode, watch: WriteCallback) -> WrittenCommit | None:
        """Writes the rows and commits them; None when there are none. When another writer of the same commit was
        faster, it is that one's that is returned.

        Raises:
            AttemptFencedError: a later attempt of the write's job has fenced.
            InvalidError: the rows do not have the table's columns or partitions.
            ConfigurationError: the table has a feature that this cannot write.
        """
        ...
