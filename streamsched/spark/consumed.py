"""How far a consumer has read a file set: the value of its bookmark, and which commits are new. Pure.

In a file set at a URL the commits are numbered without gaps, so the last number says it all. In a folder a commit may
become visible after one with a later sequence, by as long as a writer takes from its sequence to its manifest; the ids
of the last hour's commits are kept for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

import orjson

from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import loads
from streamsched.spark.manifest import Manifest

#: Sequences in folders are microseconds since the epoch, those at URLs are numbers below this.
_NUMBERS: Final = 10**12
_HOUR: Final = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Consumed:
    """The commits up to `sequence` were consumed; of the last hour before it only `recent`."""

    sequence: int = 0
    recent: frozenset[str] = frozenset()

    @classmethod
    def decode(cls, value: str) -> Self:
        """The value of a bookmark; "" is before the first commit.

        Raises:
            DecodeError: it is malformed.
        """
        if not value:
            return cls()
        fields = Fields(loads(value.encode(), "$"))
        return cls(fields.integer("sequence", minimum=0), frozenset(fields.text_list("recent")))

    @classmethod
    def all_of(cls, manifests: Sequence[Manifest]) -> Self:
        """After all of these commits."""
        last = max((manifest.sequence for manifest in manifests), default=0)
        return cls(last, frozenset(each.commit for each in manifests if last - _window(last) < each.sequence))

    def encode(self) -> str:
        """The text that `decode` reads: what has been consumed, for a bookmark."""
        return orjson.dumps({"sequence": self.sequence, "recent": sorted(self.recent)}).decode()

    def has(self, manifest: Manifest) -> bool:
        """Whether the commit was consumed."""
        return manifest.sequence <= self.sequence - _window(self.sequence) or manifest.commit in self.recent

    def select_new(self, manifests: Iterable[Manifest]) -> list[Manifest]:
        """The commits that were not."""
        return [manifest for manifest in manifests if not self.has(manifest)]


def _window(sequence: int) -> int:
    return 0 if sequence < _NUMBERS else _HOUR
