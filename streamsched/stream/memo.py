"""Events this process decoded lately, by their bytes: what one station has decoded, the next need not decode again."""

from __future__ import annotations

from typing import Final

from streamsched.domain.signal import Occurred

#: How many bytes of encoded events one generation remembers; two generations are kept.
_GENERATION_BYTES: Final = 8 << 20


class Memo:
    """Bytes of a signal → the signal. Decoding is pure, so forgetting changes nothing but speed.

    Shared by all shards of a worker, on one event loop: an event passes through up to three of them.
    """

    def __init__(self, generation_bytes: int = _GENERATION_BYTES) -> None:
        self._limit = generation_bytes
        self._young: dict[bytes, Occurred] = {}
        self._old: dict[bytes, Occurred] = {}
        self._size = 0

    def put(self, value: bytes, signal: Occurred) -> None:
        """Remembers; what is older than a generation is forgotten together."""
        self._young[value] = signal
        self._size += len(value)
        if self._size > self._limit:
            self._old, self._young, self._size = self._young, {}, 0

    def get(self, value: bytes) -> Occurred | None:
        """The signal of these bytes, if it is remembered."""
        return self._young.get(value) or self._old.get(value)
