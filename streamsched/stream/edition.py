"""Which version of the states' encoding a worker writes now (ADR 0055)."""

from __future__ import annotations

from dataclasses import dataclass

from streamsched.codec import state as state_codec


@dataclass(slots=True)
class Edition:
    """Shared by all shards of a worker. Whoever writes asks it each time; it changes between turns.

    Attributes:
        version: one that this release writes, and that everybody reads who may take the shards over.
    """

    version: int = state_codec.VERSION
