"""Leases: which process holds a name (a shard, a singleton role) until when, with an epoch for each holding.

Expiry is decided by the database's clock only, so processes with differing clocks agree; and while that clock may have
jumped, nothing expires. A lease alone does not exclude two holders: what must never happen twice is fenced where it
happens (`ports.broker.Writer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple, Protocol

from streamsched.codec.records.formats import NEWEST

#: The changelog format of release 0.1.0, in which a lease begins.
OLDEST: Final = 3

_SHARD: Final = "shard-"


def shard_lease(shard: int) -> str:
    """The lease of a shard, sortable as text."""
    return f"{_SHARD}{shard:04d}"


def is_shard_lease(name: str) -> bool:
    """Whether a lease is a shard's; the others are of singleton roles."""
    return name.startswith(_SHARD)


def shard_of(name: str) -> int:
    """The shard of a shard's lease."""
    return int(name.removeprefix(_SHARD))


def role_lease(role: str) -> str:
    """The lease of a singleton role, such as `relay`."""
    return f"role-{role}"


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """A process that holds leases. A restarted process with the same `id` gets its leases back at once. `reads`: the
    newest changelog format it reads (`codec.records.formats`).
    """

    id: str
    host: str
    pid: int
    reads: int = NEWEST


class Lease(NamedTuple):
    """A lease at one moment.

    Attributes:
        owner: the present or last holder.
        epoch: grows with every claim; never reused.
        expires_in: seconds left, by the database's clock; 0 or less: it is free.
        wanted_by: the worker that waits for it to be handed over.
        format: the newest changelog format that may have been written under it; it never shrinks.
    """

    name: str
    owner: str
    epoch: int
    expires_in: float
    wanted_by: str | None
    format: int = OLDEST

    @property
    def is_live(self) -> bool:
        """Whether it has not expired."""
        return self.expires_in > 0


@dataclass(frozen=True, slots=True)
class Membership:
    """All leases and live workers at one moment, sorted by name; `workers`: the newest format each reads."""

    workers: Mapping[str, int]
    leases: tuple[Lease, ...]


class Leases(Protocol):
    """Claims, renews and releases leases. Every method raises UnavailableError when the database is unavailable."""

    async def heartbeat(self, holder: LeaseHolder, held: Mapping[str, int], ttl: timedelta) -> Membership:
        """Stores a heartbeat of `holder`, renews what it holds (name → epoch) as `renew` does, and returns the
        membership. A worker without a heartbeat for `ttl` is not live.
        """
        ...

    async def claim(
        self, names: Sequence[str], owner: str, ttl: timedelta, *, reads: int | None = None
    ) -> Mapping[str, int]:
        """Claims those of `names` that are free, expired or the owner's already; returns name → new epoch. A lease
        whose format is newer than `reads`, if given, is not claimed.
        """
        ...

    async def renew(self, held: Mapping[str, int], owner: str, ttl: timedelta) -> frozenset[str]:
        """Renews for another `ttl`, also expired leases that were not claimed since; returns the names still held."""
        ...

    async def allow(self, held: Mapping[str, int], owner: str, version: int) -> frozenset[str]:
        """Permits writing that format version under these leases: workers that do not read it can no longer claim them.
        Returns the names for which it holds; leases claimed by another since are not among them.
        """
        ...

    async def want(self, names: Sequence[str], worker: str) -> None:
        """Asks the live owners to hand over."""
        ...

    async def release(self, held: Mapping[str, int], owner: str) -> None:
        """Releases leases, except those claimed by another since. Idempotent."""
        ...

    async def leave(self, worker: str) -> None:
        """Removes the worker from the membership. Idempotent."""
        ...
