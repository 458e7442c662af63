"""The header `traceparent` of Kafka's records."""

from __future__ import annotations

import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from streamsched_brokers.kafka.batches import committed_records

CONTEXT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ([], None),
        ([("traceparent", CONTEXT)], CONTEXT),
        ([("other", b"x"), ("traceparent", CONTEXT), ("more", None)], CONTEXT),
        ([("traceparent", b"first"), ("traceparent", CONTEXT)], CONTEXT),
        ([("traceparent", None)], None),
        ([("traceparent", b"\xff\xfe")], b"\xff\xfe"),
    ],
)
def test_it_is_read_of_each_record(headers: list[tuple[str, bytes | None]], found: bytes | None) -> None:
    batch = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, 0, 1 << 20)
    batch.append(0, timestamp=1, key=b"k", value=b"v", headers=headers)
    raw = struct.pack(">q", 0) + bytes(batch.build()[8:])

    (record,) = committed_records(raw, (), 0).records

    assert (record.value, record.traceparent) == (b"v", found)
