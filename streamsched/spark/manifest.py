"""Manifests: the partitions and files that a commit of a partitioned file set added. A file is visible if a manifest
lists it.

Pure values and one fold, `visible`; module `commit` moves the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Self

import orjson

from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import loads
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.events.event import Partition
from streamsched.domain.names import DatasetRef

VERSION: Final = 1

_COMMIT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_NAME: Final = re.compile(r"(\d{16})-(.+)\.json")


class Mode(StrEnum):
    """What a commit does to existing partitions: adds files to them, or replaces them."""

    APPEND = "append"
    OVERWRITE_PARTITIONS = "overwrite_partitions"


@dataclass(frozen=True, slots=True)
class CommittedPartition:
    """One partition of one commit; `files` are relative to the file set's folder."""

    key: str
    values: Mapping[str, str]
    files: tuple[str, ...]
    bytes: int
    rows: int

    def partition(self) -> Partition:
        return Partition(self.key, self.values, self.bytes, self.rows)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One commit.

    Attributes:
        sequence: orders the commits of the file set (microseconds since the epoch, ascending).
        at: when it was committed, UTC.
        schema: all written columns, including partition columns, in Spark's JSON.
        partition_by: the partition columns, in the order of the folders.
    """

    commit: str
    sequence: int
    dataset: DatasetRef
    at: datetime
    mode: Mode
    partition_by: tuple[str, ...]
    schema: str
    partitions: tuple[CommittedPartition, ...]

    @property
    def name(self) -> str:
        """Its file name; sorts by sequence, then by commit."""
        return f"{self.sequence:016d}-{self.commit}.json"

    @property
    def source(self) -> str:
        """Source of its event; together with the commit id it identifies duplicates."""
        return f"/datasets/{self.dataset}"

    def encode(self) -> bytes:
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
            },
            option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z,
        )

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Raises:
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
            orjson.dumps(fields.required("schema")).decode(),
            tuple(_partition(Fields(partition, path)) for partition, path in fields.list("partitions")),
        )


@dataclass(frozen=True, slots=True)
class Visible:
    """The visible content of one partition, over all its commits."""

    partition: Partition
    files: tuple[str, ...]


def commit_of(name: str) -> str | None:
    """The commit id in a manifest's file name; None when it is not such a name."""
    found = _NAME.fullmatch(name)
    return found[2] if found else None


def checked_commit(commit: str) -> str:
    """Validates a commit id, which becomes part of file names, and returns it.

    Raises:
        InvalidError: other characters than letters, digits, `.`, `_`, `-`, or too many.
    """
    if not _COMMIT.fullmatch(commit):
        raise InvalidError("$.commit_id", f"'{commit}' may only hold {_COMMIT.pattern}")
    return commit


def visible(manifests: Iterable[Manifest]) -> dict[str, Visible]:
    """The visible partitions by key, sorted: a fold of the commits in commit order."""
    found: dict[str, Visible] = {}
    for manifest in sorted(manifests, key=lambda m: (m.sequence, m.commit)):
        for partition in manifest.partitions:
            before = found.get(partition.key) if manifest.mode is Mode.APPEND else None
            found[partition.key] = _joined(before, partition)
    return dict(sorted(found.items()))


def _joined(before: Visible | None, partition: CommittedPartition) -> Visible:
    if before is None:
        return Visible(partition.partition(), partition.files)
    size = (before.partition.bytes or 0) + partition.bytes
    rows = (before.partition.rows or 0) + partition.rows
    return Visible(Partition(partition.key, partition.values, size, rows), before.files + partition.files)


def _partition(fields: Fields) -> CommittedPartition:
    return CommittedPartition(
        fields.text("key"),
        fields.texts("values"),
        tuple(str(file) for file, _ in fields.list("files")),
        fields.integer("bytes", minimum=0),
        fields.integer("rows", minimum=0),
    )
