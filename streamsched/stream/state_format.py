"""The format in which a worker writes changelogs (ADR 5)."""

from __future__ import annotations

from dataclasses import dataclass

from streamsched.codec.records import formats


@dataclass(slots=True)
class StateFormat:
    """Shared by all shards of a worker and mutable: it is read at each write, and changes between turns.

    Attributes:
        format: one of `codec.records.formats.WRITTEN`. Every worker that may take over the shards can read it.
    """

    format: int = formats.NEWEST

    @property
    def version(self) -> int:
        """The version of the encoding of trigger states."""
        return formats.STATES[self.format]
