"""Delta Lake's transaction log: one JSON file of actions for each version of a table.

Reads what a commit added: `add` actions whose `dataChange` is not false. OPTIMIZE, Z-ORDER and compaction by other
tools write false, because they only rearrange rows. Format: https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from urllib.parse import unquote

import orjson

from streamsched.codec.json.reading import Fields
from streamsched.domain.errors import DecodeError
from streamsched.domain.json_value import Json


@dataclass(frozen=True, slots=True)
class DeltaFile:
    """A data file that a commit added.

    Attributes:
        path: relative to the table's folder, or a whole URI, not percent-encoded.
        values: partition column → value as text; None is null.
        rows: None when the commit has no statistics.
        deletes: whether a deletion vector removes rows of it.
    """

    path: str
    values: Mapping[str, str | None]
    bytes: int
    rows: int | None
    deletes: bool


@dataclass(frozen=True, slots=True)
class DeltaCommit:
    """One version of a table.

    Attributes:
        digest: 16 hexadecimal digits that tell it from the same version of another table, or of one made anew.
        at: when it was committed, UTC; None when the commit has no time.
        added: the files with new data.
        transactions: application → its version, by which it knows what it has committed.
        streamsched: what a writer of ours said of the commit; empty of others.
    """

    version: int
    digest: str
    at: datetime | None
    operation: str
    added: tuple[DeltaFile, ...]
    transactions: Mapping[str, int] = field(default_factory=dict[str, int])
    streamsched: Mapping[str, Any] = field(default_factory=dict[str, Any])


def commit_digest(raw: bytes) -> str:
    """`DeltaCommit.digest` of a file of the log."""
    return sha256(raw).hexdigest()[:16]


def decode_commit(version: int, raw: bytes, columns: Sequence[str] = ()) -> DeltaCommit:
    """Decodes the file of one version. `columns`: the partition columns in their order, unless the commit sets them;
    the log has their values in any order.

    Raises:
        DecodeError: it is malformed; the path begins with the number of the line.
    """
    actions = _actions(raw)
    for action in actions:
        if (metadata := action.optional_object("metaData")) is not None:
            columns = metadata.text_list("partitionColumns")
    added: list[DeltaFile] = []
    at, operation = None, ""
    transactions: dict[str, int] = {}
    said: Mapping[str, Json] = {}
    for action in actions:
        if (transaction := action.optional_object("txn")) is not None:
            transactions[transaction.text("appId")] = transaction.integer("version")
        if (add := action.optional_object("add")) is not None and add.optional_value("dataChange") is not False:
            added.append(_file(add, columns))
        if (info := action.optional_object("commitInfo")) is not None:
            operation = str(info.optional_value("operation") or "")
            at = _instant(info.optional_value("inCommitTimestamp") or info.optional_value("timestamp"))
            ours = info.optional_value("streamsched")
            said = ours if isinstance(ours, Mapping) else {}
    return DeltaCommit(version, commit_digest(raw), at, operation, tuple(added), transactions, said)


def _actions(raw: bytes) -> list[Fields]:
    found: list[Fields] = []
    for number, line in enumerate(raw.split(b"\n")):
        if line.strip():
            try:
                found.append(Fields(orjson.loads(line), f"$[{number}]"))
            except orjson.JSONDecodeError as exc:
                raise DecodeError(f"$[{number}]", f"is not JSON: {exc}") from exc
    return found


def in_column_order(values: Mapping[str, str | None], columns: Sequence[str]) -> dict[str, str | None]:
    """The values in the order of the columns; those of other columns follow by name."""
    order = {column: place for place, column in enumerate(columns)}
    return dict(sorted(values.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))


def _file(add: Fields, columns: Sequence[str]) -> DeltaFile:
    values = add.optional_object("partitionValues")
    texts = {} if values is None else {name: values.optional_text(name) for name in values.names()}
    return DeltaFile(
        unquote(add.text("path")),
        in_column_order(texts, columns),
        add.optional_integer("size", minimum=0) or 0,
        _rows(add.optional_value("stats")),
        add.optional_value("deletionVector") is not None,
    )


def _rows(stats: Json) -> int | None:
    """Rows by the statistics, which are JSON in a text; None when they do not say."""
    try:
        found: Json = orjson.loads(stats) if isinstance(stats, str) else stats
    except orjson.JSONDecodeError:
        return None
    rows = found.get("numRecords") if isinstance(found, Mapping) else None
    return rows if isinstance(rows, int) and not isinstance(rows, bool) and rows >= 0 else None


def _instant(milliseconds: Any) -> datetime | None:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
