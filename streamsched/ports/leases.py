"""Leases: who holds which name (a shard, a part) until when. Every holder is told apart by an epoch.

One clock judges all of them, the database's, so machines whose clocks disagree still agree on who holds what. A lease
is advice: whoever must never act twice is fenced where it acts (`ports.broker.Writer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from streamsched.codec.state import VERSION

#: What releases wrote that knew nothing of formats.
OLDEST: Final = 2

_SHARD: Final = "shard-"


def shard_lease(shard: int) -> str:
    """The lease of a shard, sortable as text."""
    return f"{_SHARD}{shard:04d}"


def is_shard_lease(name: str) -> bool:
    """Whether a lease is a shard's; the others are parts'."""
    return name.startswith(_SHARD)


def shard_of(name: str) -> int:
    """The shard that a shard's lease is for."""
    return int(name.removeprefix(_SHARD))


def part_lease(part: str) -> str:
    """The lease of a part that one process plays at a time, such as `relay`. It says `role-`, as parts were called
    once: two releases side by side must mean the same lease.
    """
    return f"role-{part}"


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds leases. `id` is its identity: a process that comes back under it gets its leases at once.
    `reads`: the newest version of the states' encoding that it reads.
    """

    id: str
    host: str
    pid: int
    reads: int = VERSION


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as it stood at one moment.

    Attributes:
        owner: who holds it, or held it last.
        epoch: grows with every taking; never reused.
        expires_in: seconds left, by the database's clock; 0 or less: nobody holds it.
        wanted_by: who waits for it to be handed over.
        format: the newest version of the states' encoding that may have been written under it; it only grows.
    """

    name: str
    owner: str
    epoch: int
    expires_in: float
    wanted_by: str | None
    format: int = OLDEST

    @property
    def live(self) -> bool:
        return self.expires_in > 0


@dataclass(frozen=True, slots=True)
class View:
    """All leases and the workers that are alive, at one moment; both sorted by name. `workers`: what each reads."""

    workers: Mapping[str, int]
    leases: tuple[Lease, ...]


class Leases(Protocol):
    """Takes, renews and gives back. Every method raises UnavailableError when the database is away."""

    async def beat(self, holder: Holder, held: Mapping[str, int], ttl: timedelta) -> View:
        """Says that `holder` is alive, renews what it holds (name → epoch) as `renew` does, and tells how things stand.
        A worker that has not beaten for `ttl` is not among the living.
        """
        ...

    async def claim(
        self, names: Sequence[str], owner: str, ttl: timedelta, *, reads: int | None = None
    ) -> Mapping[str, int]:
        """Takes those of `names` that are free, expired or the owner's already; name → new epoch of what it got. One
        whose format is newer than `reads`, if given, is not taken.
        """
        ...

    async def renew(self, held: Mapping[str, int], owner: str, ttl: timedelta) -> frozenset[str]:
        """Holds on for another `ttl`, also to what has expired and nobody took; the names still held."""
        ...

    async def allow(self, held: Mapping[str, int], owner: str, version: int) -> frozenset[str]:
        """From now on that version may be written under these leases: nobody who does not read it gets them any more.
        The names for which it is so; what another has taken since is not among them.
        """
        ...

    async def want(self, names: Sequence[str], worker: str) -> None:
        """Asks the living owners to hand over."""
        ...

    async def release(self, held: Mapping[str, int], owner: str) -> None:
        """Gives back; what another has taken since is left alone. Idempotent."""
        ...

    async def leave(self, worker: str) -> None:
        """Takes the worker off the list of the living. Idempotent."""
        ...
