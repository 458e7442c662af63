"""The layout of an installation's topics: number of partitions, and the generation of the sharded topics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """Attributes:
    generation: counts reshardings, from 1; topics whose partitions are homes belong to one generation.
    shards: number of partitions of those topics.
    unkeyed_partitions: number of partitions of every other topic (public ones, `launch` …); never changes.
    """

    generation: int
    shards: int
    unkeyed_partitions: int
