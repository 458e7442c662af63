"""Files of Delta Lake's log."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from streamsched.codec.delta import DeltaFile, commit_digest, decode_commit, in_column_order
from streamsched.domain.errors import DecodeError


def lines(*actions: Any) -> bytes:
    return "\n".join(json.dumps(each) for each in actions).encode()


def added(path: str = "f.parquet", **more: Any) -> dict[str, Any]:
    return {"add": {"path": path, "partitionValues": {}, "size": 10, "dataChange": True, **more}}


def test_files_with_new_data_count() -> None:
    raw = lines(
        {"commitInfo": {"timestamp": 1767225600123, "operation": "WRITE"}},
        {"metaData": {"id": "x", "partitionColumns": ["b", "a"]}},
        added("b=2/a=x%2520y/f.parquet", partitionValues={"a": "x y", "b": "2"}, stats='{"numRecords": 7}'),
        added("g", partitionValues={"a": None, "b": "3"}, stats="no json", deletionVector={"storageType": "u"}),
        added("h", dataChange=False),
        {"remove": {"path": "old", "dataChange": True}},
    )

    commit = decode_commit(3, raw)

    assert (commit.version, commit.operation) == (3, "WRITE")
    assert commit.at == datetime(2026, 1, 1, 0, 0, 0, 123000, UTC)
    assert commit.digest == commit_digest(raw)
    assert commit.added == (
        DeltaFile("b=2/a=x%20y/f.parquet", {"b": "2", "a": "x y"}, 10, 7, deletes=False),
        DeltaFile("g", {"b": "3", "a": None}, 10, None, deletes=True),
    )
    assert list(commit.added[0].values) == ["b", "a"]


@pytest.mark.parametrize("timestamp", [None, "soon", 10**30, -(10**30), [], float("1e300"), True])
def test_a_time_that_is_none_is_left_out(timestamp: Any) -> None:
    commit = decode_commit(0, lines({"commitInfo": {"timestamp": timestamp}}, added()))

    assert commit.at is None or commit.at.year == 1970
    assert len(commit.added) == 1


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"{", "$[0]"),
        (b'{"add": {}}\n', "$[0].add.path"),
        (lines(added(), added(size=-1)), "$[1].add.size"),
        (lines(added(partitionValues={"a": 1})), "$[0].add.partitionValues.a"),
        (b"[1]", "$[0]"),
        (b"\xff\xfe", "$[0]"),
    ],
)
def test_what_is_damaged_has_its_place(raw: bytes, path: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_commit(0, raw)

    assert refused.value.path == path


def test_values_of_unknown_columns_follow_by_name() -> None:
    assert list(in_column_order({"z": "1", "a": "2", "k": None}, ["k"])) == ["k", "a", "z"]


def test_a_commit_of_100_000_files_is_read() -> None:
    raw = lines(*(added(f"day={n}/f", partitionValues={"day": str(n)}) for n in range(100_000)))

    assert len(decode_commit(0, raw).added) == 100_000
