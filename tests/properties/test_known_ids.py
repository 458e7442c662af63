"""Known event ids against a dictionary: in memory, in the changelog, through crashes."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamsched.codec.records import known_ids as codec
from streamsched.domain.signals.home import key_hash
from streamsched.stream.dedupe import id_bucket, known_ids
from streamsched.stream.dedupe.known_ids import KnownIds
from streamsched.stream.dedupe.seen import Deduplicator
from streamsched.testing.examples import examples
from tests.support.id_table import IdTable

HORIZON = timedelta(minutes=1)
HORIZON_MS = 60_000
#: Steps of the log's clock between two events, in ms: none, some, past the horizon, and backwards.
STEPS = (0, 0, 0, 1, 10, 500, 20_000, 70_000, 10_000_000, -1, -900, -30_000)


class Model:
    """What must be known, may be known, and must not be."""

    def __init__(self) -> None:
        self.first: dict[tuple[bytes, str, str], int] = {}
        self.latest = 0

    def check(self, event: tuple[bytes, str, str], time_ms: int, said: int | None) -> None:
        first = self.first.get(event)
        self.latest = max(self.latest, time_ms)
        if said is not None:
            assert first == said, "another event was taken for this one"
            assert said > time_ms - HORIZON_MS, "a repeat after the horizon is new"
            return
        assert first is None or first <= self.latest - HORIZON_MS, "a repeat was not recognised"
        self.first[event] = time_ms


def small(monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
    """Limits so small that few ids reach all of them."""
    monkeypatch.setattr(known_ids, "_LARGEST", rng.choice((20, 300, 1 << 19)))
    monkeypatch.setattr(known_ids, "_FULL", rng.choice((5, 512)))
    monkeypatch.setattr(known_ids, "_TOMBSTONES_PER_TURN", rng.choice((1, 3, 500)))
    monkeypatch.setattr(known_ids, "_PARTS_PER_TURN", rng.choice((1, 2)))
    monkeypatch.setattr(id_bucket, "_CELL", rng.choice((1, 3, 40)))
    monkeypatch.setattr(codec, "BATCH", rng.choice((4, 8_192)))


def restored(changelog: dict[bytes, bytes]) -> tuple[IdTable, Deduplicator]:
    table = IdTable(changelog)
    ids = Deduplicator(table, HORIZON)
    asyncio.run(ids.rebuild_index())
    return table, ids


def events(rng: random.Random, count: int) -> list[tuple[bytes, str, str]]:
    """Some differ only in where one part ends and the next begins."""
    parts = ["", "a", "b", "ab", "a\x1fb", "\x1f", "o", "é", "𝒳", *map(str, range(count))]
    keys = [b"event:default.go", b"event:default.g", b"", "partition:default.é".encode(), b"\xff\x1f"]
    alike = rng.choice((0.0, 0.5))
    return [
        (rng.choice(keys), rng.choice(parts[:9]), rng.choice(parts[:9] if rng.random() < alike else parts))
        for _ in range(count)
    ]


@examples(100)
@given(st.integers(0, 2**63), st.sampled_from((1, 30, 200, 1_000)))
@example(0, 100_000)
def test_a_repeat_is_known_for_the_horizon_and_nothing_else_ever(seed: int, size: int) -> None:
    rng, model = random.Random(seed), Model()
    steps = STEPS if size < 100_000 else (0,) * 200 + (1,) * 50 + (HORIZON_MS // 3,)
    with pytest.MonkeyPatch.context() as monkeypatch:
        if size < 100_000:
            small(monkeypatch, rng)
        table, ids = restored({})
        committed, known, time_ms = dict(table.changelog), dict(model.first), 1_000_000
        some = events(rng, size)
        for number in range(size):
            time_ms = max(0, time_ms + rng.choice(steps))
            event = some[number] if rng.random() < 0.7 else rng.choice(some)
            key, source, event_id = event
            model.check(event, time_ms, ids.first_seen_ms(key, event_id, source, time_ms))
            if rng.random() < max(0.0005, 3 / size):
                if size == 100_000 or rng.random() < 0.6:
                    ids.flush()
                    committed, known = dict(table.changelog), dict(model.first)
                else:
                    table, ids = restored(committed)
                    model.first = dict(known)
        ids.flush()
        _, again = restored(table.changelog)
        assert len(again) == len(ids)
        for event in some[:2_000]:
            at = model.first.get(event)
            if at is not None and at > model.latest - HORIZON_MS:
                key, source, event_id = event
                assert (
                    ids.first_seen_ms(key, event_id, source, at) == again.first_seen_ms(key, event_id, source, at) == at
                )


def contents(ids: KnownIds) -> list[tuple[int, list[bytes]]]:
    return [(bucket.number, sorted(bucket.entries())) for bucket in ids._newest_first]


def rebuilt(changelog: dict[bytes, bytes]) -> KnownIds:
    ids = KnownIds(lambda key, value: None, HORIZON_MS)
    asyncio.run(ids.restore(dict(changelog)))
    return ids


@examples(60)
@given(st.integers(0, 2**63), st.sampled_from((10, 100, 3_000)))
def test_what_is_read_back_after_any_turn_is_what_the_turn_left(seed: int, size: int) -> None:
    """The changelog is compacted here all the time; a recovery equals the live state, bucket by bucket."""
    rng = random.Random(seed)
    with pytest.MonkeyPatch.context() as monkeypatch:
        small(monkeypatch, rng)
        table = IdTable()
        ids = KnownIds(table.write, HORIZON_MS)
        time_ms, number = 0, 0
        steps = rng.choice((STEPS, (0, 0, 0, 1)))
        while number < size:
            for _ in range(rng.choice((1, 1, 2, 7, 60, 400))):
                time_ms = max(0, time_ms + rng.choice(steps))
                digest = codec.digest(b"k", b"s", b"%d" % number)
                ids.expire(time_ms)
                ids.add(digest, time_ms, key_hash(b"k"), now_ms=time_ms)
                number += 1
            ids.flush()
            if rng.random() < 0.3:
                found = rebuilt(table.changelog)
                assert contents(found) == contents(ids)
                assert len(found) == len(ids)
                if rng.random() < 0.3:
                    found._write = table.write
                    ids = found
        for _ in range(size * 70):
            before = table.records
            ids.flush()
            if table.records == before:
                break
        closed = {bucket.number for bucket in ids._newest_first if bucket is not ids._open}
        places = [codec.place(key) for key in table.changelog]
        assert {place.bucket for place in places if place.part} == closed
        assert {place.bucket for place in places if not place.part} <= {ids._newest_first[0].number} - closed
        assert contents(rebuilt(table.changelog)) == contents(ids)
