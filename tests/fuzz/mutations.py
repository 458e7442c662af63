"""Bytes that resemble events: events of every dialect with some of their values or bytes changed.

The same seed gives the same bytes in the same order. Nothing is larger than `LARGEST` bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from tests.hostile.documents import events
from tests.hostile.extremes import TEXTS, worsened, written
from tests.support.health_checks import ALL_CHECKS

LARGEST: Final = 20_000
#: Texts that occur in events, and some that parsers of JSON, times and numbers treat specially.
TOKENS: Final[Sequence[bytes]] = (
    *(
        f'"{name}"'.encode()
        for name in ("id", "source", "time", "type", "data", "dataset", "partitions", "key", "count")
    ),
    *(f'"{name}"'.encode() for name in ("values", "bytes", "rows", "specversion", "notificationType", "properties")),
    *(f'"{name}"'.encode() for name in ("partitions.added", "stream.size", "program.status", "custom", "tick")),
    *(b"{", b"}", b"[", b"]", b":", b",", b'"', b"\\", b"\\u0000", b"\\ud800", b"null", b"true", b"-0", b"1e999"),
    *(b"\x00", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xae", b"NaN", b"1" * 400),
    *(b"0001-01-01T00:00:00Z", b"9999-12-31T23:59:60Z", b"2026-11-22", b"=", b"/", b"..", b"%00", b"log:"),
)

Change = Callable[[bytearray, random.Random, Sequence[bytes]], None]


def _flip(raw: bytearray, rng: random.Random, _: Sequence[bytes]) -> None:
    raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)


def _insert(raw: bytearray, rng: random.Random, _: Sequence[bytes]) -> None:
    at = rng.randrange(len(raw) + 1)
    raw[at:at] = rng.choice(TOKENS) if rng.random() < 0.7 else rng.randbytes(rng.randint(1, 8))


def _replace(raw: bytearray, rng: random.Random, _: Sequence[bytes]) -> None:
    start, end = _span(raw, rng)
    raw[start:end] = rng.choice(TOKENS)


def _delete(raw: bytearray, rng: random.Random, _: Sequence[bytes]) -> None:
    start, end = _span(raw, rng)
    del raw[start:end]


def _repeat(raw: bytearray, rng: random.Random, _: Sequence[bytes]) -> None:
    start, end = _span(raw, rng)
    raw[start:start] = raw[start:end] * rng.randint(1, 20)


def _cut(raw: bytearray, rng: random.Random, _: Sequence[bytes]) -> None:
    del raw[rng.randrange(len(raw)) :]


def _splice(raw: bytearray, rng: random.Random, others: Sequence[bytes]) -> None:
    other = rng.choice(others)
    raw[rng.randrange(len(raw)) :] = other[rng.randrange(len(other) + 1) :]


_CHANGES: Final[Sequence[Change]] = (_flip, _flip, _insert, _replace, _delete, _repeat, _cut, _splice)


def _span(raw: bytearray, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(raw))
    return start, min(len(raw), start + rng.choice((1, 2, 4, 8, 32, 128)))


class Mutations:
    """Draws events without end. Attributes: `seeds`: what bytes are mutated from; never empty."""

    def __init__(self, number: int, more: Sequence[bytes] = ()) -> None:
        self._rng = random.Random(number)
        self._next = 0
        self._prefix = f"f{number}x"
        self._whole = [written(event) for event in events(self._prefix)]
        self.seeds: list[bytes] = [*self._whole, *(raw for raw in more if raw)]

    def document(self) -> Any:
        """An event as a JSON value with one to three extremes in it. Its JSON is valid unless an extreme is not."""
        while True:
            self._next += 1
            event = self._rng.choice(events(f"{self._prefix}{self._next}"))
            document, _ = worsened(event, self._rng, times=self._rng.choice((1, 1, 1, 2, 3)))
            if len(written(document)) <= LARGEST:
                return document

    def mutated(self) -> bytes:
        """An event, or a document of the corpus, with one to four changes of its bytes."""
        kind = self._rng.random()
        if kind < 0.3:
            raw = bytearray(written(self.document()))
        else:
            raw = bytearray(self._rng.choice(self._whole if kind < 0.8 else self.seeds))
        for _ in range(self._rng.choice((1, 1, 2, 3, 4))):
            if not raw:
                break
            self._rng.choice(_CHANGES)(raw, self._rng, self.seeds)
        return bytes(raw[:LARGEST])


def corpus(number: int, examples: int) -> list[bytes]:
    """JSON documents drawn by Hypothesis whose fields are named as those of events, each once."""
    found: dict[bytes, None] = {}

    def collect(document: Any) -> None:
        raw = written(document)
        if len(raw) <= LARGEST:
            found[raw] = None

    settings_ = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=ALL_CHECKS,
    )
    settings_(seed(number)(given(_documents())(collect)))()
    return list(found)


_FIELDS: Final = sorted({token.decode().strip('"') for token in TOKENS if token.startswith(b'"') and len(token) > 1})


def _documents() -> st.SearchStrategy[Any]:
    values = st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=40)
        | st.sampled_from(_FIELDS)
        | st.sampled_from([each.value for each in TEXTS if isinstance(each.value, str)]),
        lambda inner: (
            st.lists(inner, max_size=6)
            | st.dictionaries(st.sampled_from(_FIELDS) | st.text(max_size=12), inner, max_size=8)
        ),
        max_leaves=30,
    )
    return st.dictionaries(st.sampled_from(_FIELDS), values, min_size=1, max_size=10)
