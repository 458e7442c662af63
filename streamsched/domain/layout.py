"""How an installation lies in its log: how many homes there are, and which generation of topics keeps them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """Attributes:
    generation: grows with every resharding, from 1; topics whose partitions are homes belong to one.
    shards: the partitions of these.
    outlets: the partitions of every other topic (public ones, `launch` …); they never change.
    """

    generation: int
    shards: int
    outlets: int
