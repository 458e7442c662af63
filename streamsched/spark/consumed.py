"""How far a consumer has read a file set: the value of its bookmark, and which commits are new. Pure.

The commits of a file set are numbered without gaps and become visible in that order, so the last number says it all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import orjson

from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import loads
from streamsched.spark.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Consumed:
    """The commits up to `sequence` were consumed."""

    sequence: int = 0

    @classmethod
    def decode(cls, value: str) -> Self:
        """The value of a bookmark; "" is before the first commit.

        Raises:
            DecodeError: it is malformed.
        """
        return cls(Fields(loads(value.encode(), "$")).integer("sequence", minimum=0)) if value else cls()

    @classmethod
    def all_of(cls, manifests: Sequence[Manifest]) -> Self:
        """After all of these commits."""
        return cls(max((manifest.sequence for manifest in manifests), default=0))

    def encode(self) -> str:
        """The text that `decode` reads: what has been consumed, for a bookmark."""
        return orjson.dumps({"sequence": self.sequence}).decode()

    def has(self, manifest: Manifest) -> bool:
        """Whether the commit was consumed."""
        return manifest.sequence <= self.sequence

    def select_new(self, manifests: Iterable[Manifest]) -> list[Manifest]:
        """The commits that were not."""
        return [manifest for manifest in manifests if not self.has(manifest)]
