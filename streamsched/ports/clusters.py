"""Clusters that runs are made for: what they say of their load, and where launchers keep that for one another.

A probe is found by the scheme of its URL: one of ours, or an entry point of group `streamsched.clusters`, a function
from the URL to a `Probe`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import entry_points
from typing import Final, Protocol
from urllib.parse import urlsplit

from streamsched.domain.errors import ConfigurationError
from streamsched.domain.load import Gate, Load, Reading

GROUP: Final = "streamsched.clusters"


class Probe(Protocol):
    """Asks one cluster."""

    async def read(self) -> Reading:
        """Raises:
        UnavailableError: it does not answer, or not what we understand.
        """
        ...


@dataclass(frozen=True, slots=True)
class GateRecord:
    """What the readings of a cluster mean for one `Load`; `waiting`: how many jobs are held by it."""

    load: Load
    gate: Gate
    waiting: int


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """What is known of a cluster. Times UTC.

    Attributes:
        reading, at: the last one, and when it was taken.
        failed: why the probe brings nothing now, and `failing` since when.
        waiting: how many jobs wait for it.
        gates: of every `Load` that a job ever brought before it.
    """

    name: str
    reading: Reading | None
    at: datetime | None
    failed: str | None
    failing: datetime | None
    waiting: int
    gates: Sequence[GateRecord] = ()


class Board(Protocol):
    """Where readings are kept, so that one launcher asks and all know."""

    async def wanted(self, now: datetime, *, every: timedelta, patience: timedelta) -> Sequence[str]:
        """Clusters that jobs wait for and whose reading is older than `every`; they are the caller's to ask for as long
        as `patience`.
        """
        ...

    async def next_due(self, now: datetime, *, every: timedelta) -> datetime | None:
        """When one of them is wanted next; None: nobody waits for any."""
        ...

    async def told(self, cluster: str, reading: Reading, *, now: datetime) -> int:
        """A reading: gates turn, and of the jobs before those that are open as many are looked at as may start. Returns
        how many.
        """
        ...

    async def failed(self, cluster: str, reason: str, *, now: datetime) -> None:
        """No reading, and why; what is known stays until it is stale."""
        ...

    async def all(self) -> Sequence[ClusterRecord]:
        """Clusters that a job ever waited for, ordered by name."""
        ...


def open_probe(url: str, known: Mapping[str, Callable[[str], Probe]]) -> Probe:
    """The probe behind `url`: one of `known` by its scheme, or of an entry point.

    Raises:
        ConfigurationError: no installed probe has that scheme, or it refuses the URL.
    """
    scheme = urlsplit(url).scheme
    if scheme in known:
        return known[scheme](url)
    found = {point.name: point for point in entry_points(group=GROUP)}
    if scheme not in found:
        raise ConfigurationError(f"no probe for '{scheme}://'; known: {', '.join(sorted({*known, *found}))}")
    return found[scheme].load()(url)
