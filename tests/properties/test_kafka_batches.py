"""Fetched bytes to committed records, against a model that knows how each transaction ended."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from aiokafka.record._protocols import DefaultRecordBatchBuilderProtocol
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c
from hypothesis import given
from hypothesis import strategies as st
from streamsched_brokers.kafka.batches import committed_records

PRODUCERS = 3
BEGIN, COMMIT, ABORT, PLAIN = "begin", "commit", "abort", "plain"
_CRC, _ATTRIBUTES, _PRODUCER = 17, 21, 43
_CONTROL = 0x20


@dataclass
class Partition:
    """A partition's log as a broker builds it, and what a committed reader must get of it."""

    raw: bytes = b""
    end: int = 0
    values: list[tuple[int, bytes, int | None]] = field(default_factory=list)
    open_since: dict[int, int] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)

    def append(self, count: int, producer: int | None) -> None:
        batch = _builder(transactional=producer is not None, producer=producer)
        for index in range(count):
            value = b"%d" % (self.end + index)
            batch.append(index, timestamp=1, key=b"k", value=value, headers=[])
            self.values.append((self.end + index, value, producer))
        if producer is not None:
            self.open_since.setdefault(producer, self.end)
        self._add(batch.build(), count)

    def mark(self, producer: int, *, commit: bool) -> None:
        batch = _builder(transactional=True, producer=producer)
        batch.append(0, timestamp=1, key=struct.pack(">hh", 0, int(commit)), value=b"", headers=[])
        since = self.open_since.pop(producer, None)
        if since is not None and not commit:
            self.aborted.append((producer, since, self.end))
        self._add(_as_control(batch.build()), 1)

    def _add(self, batch: bytearray | bytes, count: int) -> None:
        self.raw += struct.pack(">q", self.end) + bytes(batch[8:])
        self.end += count

    def wanted(self, start: int) -> list[tuple[int, bytes]]:
        return [
            (offset, value)
            for offset, value, producer in self.values
            if offset >= start
            and not any(producer == who and first <= offset < last for who, first, last in self.aborted)
        ]


def _builder(*, transactional: bool, producer: int | None) -> DefaultRecordBatchBuilderProtocol:
    return DefaultRecordBatchBuilder(
        2,
        0,
        is_transactional=int(transactional),
        producer_id=-1 if producer is None else producer,
        producer_epoch=0,
        base_sequence=0,
        batch_size=1 << 20,
    )


def _as_control(batch: bytearray | bytes) -> bytes:
    marked = bytearray(batch)
    attributes = struct.unpack_from(">h", marked, _ATTRIBUTES)[0] | _CONTROL
    struct.pack_into(">h", marked, _ATTRIBUTES, attributes)
    struct.pack_into(">I", marked, _CRC, calc_crc32c(marked[_ATTRIBUTES:]))
    return bytes(marked)


steps = st.lists(
    st.one_of(
        st.tuples(st.just(BEGIN), st.integers(0, PRODUCERS - 1), st.integers(1, 3)),
        st.tuples(st.sampled_from([COMMIT, ABORT]), st.integers(0, PRODUCERS - 1), st.just(0)),
        st.tuples(st.just(PLAIN), st.just(0), st.integers(1, 3)),
    ),
    max_size=20,
)


@given(steps=steps, data=st.data())
def test_exactly_the_committed_records_from_any_position(
    steps: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    log = Partition()
    for what, producer, count in steps:
        match what:
            case "begin":
                log.append(count, producer)
            case "plain":
                log.append(count, None)
            case _:
                log.mark(producer, commit=what == COMMIT)
    for producer in list(log.open_since):  # a fetch ends before anything undecided
        log.mark(producer, commit=True)
    start = data.draw(st.integers(0, log.end))
    reported = [(producer, first) for producer, first, last in log.aborted if last >= start]

    found = committed_records(log.raw, data.draw(st.permutations(reported)), start)

    assert [(record.offset, record.value) for record in found.records] == log.wanted(start)
    assert found.next_position == max(start, log.end)


@given(count=st.integers(1, 5), cut=st.integers(1, 40))
def test_a_batch_cut_short_by_the_size_of_the_fetch_comes_with_the_next(count: int, cut: int) -> None:
    log = Partition()
    log.append(2, None)
    whole = len(log.raw)
    log.append(count, 1)

    found = committed_records(log.raw[: max(whole, len(log.raw) - cut)], [], 0)

    assert [record.offset for record in found.records] == [0, 1]
    assert found.next_position == 2
