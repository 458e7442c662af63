"""Manifests: the partitions and files that a commit of a partitioned file set added. A file is visible if a manifest
lists it.

Pure values and one fold, `visible_partitions`; `posix_store` and `object_store` write the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Self

import orjson

from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import loads
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import Partition
from streamsched.domain.names import DatasetRef
from streamsched.spark.writes.write import Author, Write, fence_name, highest_fence

VERSION: Final = 1

_NO_COLUMNS: Final = '{"type":"struct","fields":[]}'


class Mode(StrEnum):
    """What a commit does to existing partitions: adds files to them, or replaces them."""

    APPEND = "append"
    OVERWRITE_PARTITIONS = "overwrite_partitions"


class Phase(StrEnum):
    """Phases of a commit, in order."""

    STAGED = "staged"
    PREPARED = "prepared"
    MOVING = "moving"
    MOVED = "moved"
    CHECKED = "checked"
    COMMITTED = "committed"
    EMITTED = "emitted"
    ANNOUNCED = "announced"


#: CHECKED: nothing forbids the commit; only the storage's own conditional operation follows. Reached again when that
#: operation finds another entry in its place.
#: Called at each phase of a commit; tests end the process there.
PhaseCallback = Callable[[Phase], None]


@dataclass(frozen=True, slots=True)
class Columns:
    """The staged data's schema (Spark's JSON), and its partition columns in the order of the folders."""

    schema: str
    partition_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommittedPartition:
    """One partition of one commit; `files` are relative to the file set's folder."""

    key: str
    values: Mapping[str, str]
    files: tuple[str, ...]
    bytes: int
    rows: int

    def partition(self) -> Partition:
        """The partition as its event names it."""
        return Partition(self.key, self.values, self.bytes, self.rows)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One entry of a file set's log: a commit, or a fence, which has no partitions.

    Attributes:
        sequence: orders the entries of the file set, which are numbered from 1 without gaps.
        at: when it was committed, UTC.
        schema: all written columns, including partition columns, in Spark's JSON.
        partition_by: the partition columns, in the order of the folders.
        author: None when no run wrote it.
        work: of the write; "" in a fence, which writes nothing.
        fence: whether no earlier attempt of the author's job commits after it.
    """

    commit: str
    sequence: int
    dataset: DatasetRef
    at: datetime
    mode: Mode
    partition_by: tuple[str, ...]
    schema: str
    partitions: tuple[CommittedPartition, ...]
    author: Author | None = None
    work: str = ""
    fence: bool = False

    @property
    def source(self) -> str:
        """Source of its event; together with the commit id it identifies duplicates."""
        return f"/datasets/{self.dataset}"

    def encode(self) -> bytes:
        """The bytes of the file, which `decode` reads; the same manifest always has the same bytes."""
        optional = {"author": self.author, "work": self.work, "fence": self.fence}
        return orjson.dumps(
            {
                "v": VERSION,
                "commit": self.commit,
                "sequence": self.sequence,
                "dataset": str(self.dataset),
                "at": self.at,
                "mode": self.mode,
                "partition_by": self.partition_by,
                "schema": orjson.Fragment(self.schema),
                "partitions": self.partitions,
                **{name: value for name, value in optional.items() if value},
            },
            option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z,
        )

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """The manifest that `encode` wrote.

        Raises:
            DecodeError: malformed, or of an unknown version.
        """
        fields = Fields(loads(raw, "$"))
        if (version := fields.integer("v")) != VERSION:
            raise DecodeError("$.v", f"is version {version}; this release reads {VERSION}")
        return cls(
            fields.text("commit"),
            fields.integer("sequence", minimum=0),
            DatasetRef.parse(fields.text("dataset")),
            fields.instant("at"),
            fields.choice("mode", Mode),
            tuple(str(column) for column, _ in fields.list("partition_by")),
            orjson.dumps(fields.required_value("schema")).decode(),
            tuple(_partition(Fields(partition, path)) for partition, path in fields.list("partitions")),
            _author(fields.optional_object("author")),
            fields.optional_text("work") or "",
            fields.optional_value("fence") is True,
        )


@dataclass(frozen=True, slots=True)
class Visible:
    """The visible content of one partition, over all its commits."""

    partition: Partition
    files: tuple[str, ...]


def fence_draft(known: Sequence[Manifest], author: Author, dataset: DatasetRef, at: datetime) -> Manifest:
    """The entry by which an attempt fences the earlier ones. It has the columns of the last commit."""
    last = known[-1] if known else None
    schema = _NO_COLUMNS if last is None else last.schema
    partition_by = () if last is None else last.partition_by
    name = fence_name(author)
    return Manifest(name, 0, dataset, at, Mode.APPEND, partition_by, schema, (), author, fence=True)


def find_visible(known: Iterable[Manifest], draft: Manifest) -> Manifest | None:
    """The entry with the draft's id, when it is visible already; None: the draft may follow, as the next one.

    Raises:
        AttemptFencedError: a later attempt of its job has fenced.
    """
    entries = list(known)
    if (found := next((each for each in entries if each.commit == draft.commit), None)) is not None:
        return found
    if draft.author is not None:
        fences = (each.author for each in entries if each.fence and each.author is not None)
        draft.author.check_fence(highest_fence(draft.author.job, fences))
    return None


def check_match(write: Write, found: Manifest, mode: Mode, partition_by: Sequence[str]) -> None:
    """Checks that a write which is repeated says the same as the commit that is found.

    Raises:
        ConflictError: it was written otherwise.
    """
    differs = ""
    if found.mode is not mode:
        differs = f"it was written with mode {found.mode}, and now with {mode}"
    elif found.partition_by != tuple(partition_by):
        differs = f"it is partitioned by {', '.join(found.partition_by)}, and now by {', '.join(partition_by)}"
    write.check_match(found.author, differs)


def visible_partitions(manifests: Iterable[Manifest]) -> dict[str, Visible]:
    """The visible partitions by key, sorted: a fold of the commits in commit order."""
    found: dict[str, Visible] = {}
    for manifest in sorted(manifests, key=lambda m: (m.sequence, m.commit)):
        for partition in manifest.partitions:
            before = found.get(partition.key) if manifest.mode is Mode.APPEND else None
            found[partition.key] = _join_partition(before, partition)
    return dict(sorted(found.items()))


def _join_partition(before: Visible | None, partition: CommittedPartition) -> Visible:
    if before is None:
        return Visible(partition.partition(), partition.files)
    size = (before.partition.bytes or 0) + partition.bytes
    rows = (before.partition.rows or 0) + partition.rows
    return Visible(Partition(partition.key, partition.values, size, rows), before.files + partition.files)


def _author(fields: Fields | None) -> Author | None:
    if fields is None:
        return None
    ordinal, ordered = fields.optional_integer("ordinal", minimum=0) or 0, fields.optional_value("ordered") is not False
    return Author(fields.text("job"), fields.integer("attempt", minimum=1), ordinal, ordered)


def _partition(fields: Fields) -> CommittedPartition:
    return CommittedPartition(
        fields.text("key"),
        fields.texts("values"),
        tuple(str(file) for file, _ in fields.list("files")),
        fields.integer("bytes", minimum=0),
        fields.integer("rows", minimum=0),
    )
