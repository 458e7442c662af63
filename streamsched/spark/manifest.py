"""Manifests: what a commit of a partitioned file set added. A file is visible when a manifest lists it.

Pure values and one fold, `visible`; the files themselves are moved by `commit`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Self

import orjson

from streamsched.codec.reading import Fields
from streamsched.codec.scalar import loads
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.event import Partition
from streamsched.domain.names import DatasetRef

VERSION: Final = 1

_COMMIT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_NAME: Final = re.compile(r"(\d{16})-(.+)\.json")


class Mode(StrEnum):
    """What a commit does to partitions that are there already: adds files to them, or takes their place."""

    APPEND = "append"
    OVERWRITE_PARTITIONS = "overwrite_partitions"


@dataclass(frozen=True, slots=True)
class Piece:
    """What one commit holds of one partition; `files` are relative to the file set's folder."""

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
        sequence: place among the commits of the file set (microseconds since the epoch, growing).
        at: when it was committed, UTC.
        schema: of all columns as written, partition columns among them, in Spark's JSON.
        partition_by: the partition columns, in the order of the folders.
    """

    commit: str
    sequence: int
    dataset: DatasetRef
    at: datetime
    mode: Mode
    partition_by: tuple[str, ...]
    schema: str
    pieces: tuple[Piece, ...]

    @property
    def name(self) -> str:
        """Its file name: sorts by sequence, then by commit."""
        return f"{self.sequence:016d}-{self.commit}.json"

    @property
    def source(self) -> str:
        """Source of the event that announces it; with the commit id it makes every repeat recognisable."""
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
                "partitions": self.pieces,
            },
            option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z,
        )

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Raises:
        DecodeError: no manifest of a version we know.
        """
        fields = Fields(loads(raw, "$"))
        if (version := fields.integer("v")) != VERSION:
            raise DecodeError("$.v", f"is version {version}; this code knows {VERSION}")
        return cls(
            fields.text("commit"),
            fields.integer("sequence", minimum=0),
            DatasetRef.parse(fields.text("dataset")),
            fields.instant("at"),
            fields.choice("mode", Mode),
            tuple(str(column) for column, _ in fields.list("partition_by")),
            orjson.dumps(fields.required("schema")).decode(),
            tuple(_piece(Fields(piece, path)) for piece, path in fields.list("partitions")),
        )


@dataclass(frozen=True, slots=True)
class Visible:
    """What readers see of one partition, all its commits together."""

    partition: Partition
    files: tuple[str, ...]


def commit_of(name: str) -> str | None:
    """The commit a manifest's file name names; None when it is no manifest's name."""
    found = _NAME.fullmatch(name)
    return found[2] if found else None


def checked_commit(commit: str) -> str:
    """The commit id, when it may be one: it becomes part of file names.

    Raises:
        InvalidError: other characters than letters, digits, `.`, `_`, `-`, or too many.
    """
    if not _COMMIT.fullmatch(commit):
        raise InvalidError("$.commit_id", f"'{commit}' may only hold {_COMMIT.pattern}")
    return commit


def visible(manifests: Iterable[Manifest]) -> dict[str, Visible]:
    """What readers see, by partition key, in order of keys: a fold of the commits in their order."""
    seen: dict[str, Visible] = {}
    for manifest in sorted(manifests, key=lambda m: (m.sequence, m.commit)):
        for piece in manifest.pieces:
            before = seen.get(piece.key) if manifest.mode is Mode.APPEND else None
            seen[piece.key] = _joined(before, piece)
    return dict(sorted(seen.items()))


def _joined(before: Visible | None, piece: Piece) -> Visible:
    if before is None:
        return Visible(piece.partition(), piece.files)
    size = (before.partition.bytes or 0) + piece.bytes
    rows = (before.partition.rows or 0) + piece.rows
    return Visible(Partition(piece.key, piece.values, size, rows), before.files + piece.files)


def _piece(fields: Fields) -> Piece:
    return Piece(
        fields.text("key"),
        fields.texts("values"),
        tuple(str(file) for file, _ in fields.list("files")),
        fields.integer("bytes", minimum=0),
        fields.integer("rows", minimum=0),
    )
