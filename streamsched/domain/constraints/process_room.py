"""Room for processes: who gets the next place on the launchers, given who holds places and who waits. Pure.

Places are shared by namespaces, and within a namespace by its pools: a namespace and a pool are a `Share`. A namespace
that holds fewer places than its part (all places by the number of namespaces that hold or want some) goes before the
others. Then come shares that hold none, in turn; then those that hold fewest. Within a share the order is that of a
pool's queue, where priority counts and ages (`constraints.pool.position_at`).

Beyond the places there is a reserve (`reserve_of`), so that a share without a process starts one at once although long
runs hold every place: it is for shares that hold none, and for namespaces below their part.

    >>> full = ProcessRoom((("box", 4),), {Share("shop", "etl"): 4}, {Share("shop", "ad-hoc"): (ShareTurn(NOON, "r"),)})
    >>> full.next_shares(9)
    (Share(namespace='shop', pool='ad-hoc'),)
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

_NEVER: Final = (-1, 0.0)


class ProcessKind(StrEnum):
    """What a run's process needs of its launcher's machine. Each kind has places of its own."""

    HOST = "host"  # its program works there
    CLUSTER = "cluster"  # its program works in a cluster, and the process only watches it: `deploy_mode` cluster


class Share(NamedTuple):
    """Who shares places: the runs of a namespace in a pool; `pool` is empty for those in none."""

    namespace: str
    pool: str = ""


class ShareTurn(NamedTuple):
    """The place of a run or job in the order of its share: `at`, of `constraints.pool.position_at` (UTC), then id."""

    at: datetime
    id: str


class RoomTurn(NamedTuple):
    """A place that a run takes, or that a job waits for."""

    kind: ProcessKind
    share: Share
    turn: ShareTurn


def reserve_of(places: int) -> int:
    """How many more processes a launcher with so many places starts for shares without one."""
    return max(1, places // 4)


@dataclass(frozen=True, slots=True)
class ProcessRoom:
    """The places of one kind on all launchers, and who holds and wants them.

    Attributes:
        launchers: the host and the places of each launcher; none: their number is unknown, and nothing is refused.
        held: processes by share, those being started included.
        pending: the first runs that wait for a process, by share and in their order; at least as many as are free.
        waiting: likewise the first jobs that wait for room.
        served: when a share last got a place (UTC); missing: never.
    """

    launchers: tuple[tuple[str, int], ...] = ()
    held: Mapping[Share, int] = field(default_factory=dict[Share, int])
    pending: Mapping[Share, tuple[ShareTurn, ...]] = field(default_factory=dict[Share, tuple[ShareTurn, ...]])
    waiting: Mapping[Share, tuple[ShareTurn, ...]] = field(default_factory=dict[Share, tuple[ShareTurn, ...]])
    served: Mapping[Share, datetime] = field(default_factory=dict[Share, datetime])
    _free_for: dict[Share, int] = field(default_factory=dict[Share, int], init=False, repr=False, compare=False)

    @property
    def places(self) -> int:
        """Places of all launchers together, without the reserve."""
        return sum(places for _, places in self.launchers)

    @property
    def reserve(self) -> int:
        """Processes that launchers start beyond their places, for shares without one."""
        return sum(reserve_of(places) for _, places in self.launchers)

    @property
    def processes(self) -> int:
        """How many processes hold a place now, or one of the reserve."""
        return sum(self.held.values())

    @property
    def claims(self) -> int:
        """The places taken, and those that runs wait for."""
        return self.processes + sum(map(len, self.pending.values()))

    @property
    def free_places(self) -> int:
        """Places that are not held, the reserve included; negative when launchers have gone."""
        return self.places + self.reserve - self.processes

    def next_shares(self, at_most: int, *, also: Share | None = None) -> tuple[Share, ...]:
        """The shares that get the next places, in order, at most so many; one that gets several is there several times.
        `also` is given places as if it wanted all of them.
        """
        wanted = Counter({share: len(turns) for share, turns in self.pending.items()})
        wanted.update({share: len(turns) for share, turns in self.waiting.items()})
        if also is not None:
            wanted[also] += max(0, at_most)
        order = _Order(self, wanted)
        given: list[Share] = []
        while len(given) < at_most and (share := order.next_share()) is not None:
            order.give(share)
            given.append(share)
        return tuple(given)

    def free_places_for(self, share: Share) -> int:
        """How many runs of jobs of the share may be added to those that wait for a process."""
        if share not in self._free_for:
            given = self.next_shares(max(0, self.free_places), also=share).count(share)
            self._free_for[share] = given - len(self.pending.get(share, ()))
        return self._free_for[share]

    def admits(self, share: Share, turn: ShareTurn) -> bool:
        """Whether a job with this turn starts now: the share has a place for it and for the jobs that are before it."""
        if not self.launchers:
            return True
        before = bisect_left(self.waiting.get(share, ()), turn)
        others = sum(len(turns) for each, turns in self.waiting.items() if each != share)
        fits = before < self.places - self.claims - others  # with all that others want; then no order matters
        return fits or before < self.free_places_for(share)

    def with_run(self, share: Share, turn: ShareTurn) -> ProcessRoom:
        """The room after a job with this turn was admitted: its run waits for a process."""
        waiting, pending = self.waiting.get(share, ()), self.pending.get(share, ())
        at, to = bisect_left(waiting, turn), bisect_left(pending, turn)
        waited = waiting[at : at + 1] == (turn,)
        after = replace(
            self,
            pending={**self.pending, share: (*pending[:to], turn, *pending[to:])},
            waiting={**self.waiting, share: waiting[:at] + waiting[at + waited :]},
        )
        if waited:  # each share wants as much as before, so what they get is known
            after._free_for.update({each: free - (each == share) for each, free in self._free_for.items()})
        return after

    def __str__(self) -> str:
        """How full it is, as part of a sentence."""
        if not self.launchers:
            return "no launcher says how many processes it has room for"
        where = f"launcher {self.launchers[0][0]}" if len(self.launchers) == 1 else f"{len(self.launchers)} launchers"
        return f"{min(self.claims, self.places)} of {self.places} processes on {where}"


class _Order:
    """The order in which places are given: what each share holds and wants, changed by each place given."""

    def __init__(self, room: ProcessRoom, wanted: Mapping[Share, int]) -> None:
        self._places, self._most = room.places, room.places + room.reserve
        self._unknown = not room.launchers
        self._held = Counter(room.held)
        self._wanted = {share: count for share, count in wanted.items() if count > 0}
        self._of_namespace = Counter[str]()
        for share, count in room.held.items():
            self._of_namespace[share.namespace] += count
        self._first = {
            share: min((*room.pending.get(share, ()), *room.waiting.get(share, ())), default=None)
            for share in self._wanted
        }
        #: When last: never, at some time, or by this order; of a share, and of a namespace.
        self._served = {share: (0, at.timestamp()) for share, at in room.served.items()}
        self._served_names: dict[str, tuple[int, float]] = {}
        for share, at in self._served.items():
            self._served_names[share.namespace] = max(at, self._served_names.get(share.namespace, _NEVER))
        self._given = 0

    def next_share(self) -> Share | None:
        """The share that gets the next place; None when no share may have one."""
        taken = sum(self._of_namespace.values())
        if not self._wanted or (taken >= self._most and not self._unknown):
            return None
        some = {name for name, count in self._of_namespace.items() if count} | {each.namespace for each in self._wanted}
        part = max(1, self._places // len(some))
        candidates: Iterable[Share] = [share for share in self._wanted if self._of_namespace[share.namespace] < part]
        if not candidates and (taken < self._places or self._unknown):
            candidates = self._wanted
        elif not candidates:
            candidates = [share for share in self._wanted if not self._held[share]]
        return min(candidates, key=self._rank, default=None)

    def give(self, share: Share) -> None:
        self._held[share] += 1
        self._of_namespace[share.namespace] += 1
        self._given += 1
        self._served[share] = self._served_names[share.namespace] = (1, self._given)
        self._wanted[share] -= 1
        if not self._wanted[share]:
            del self._wanted[share]

    def _rank(self, share: Share) -> tuple[object, ...]:
        held = self._held[share]
        first = self._first[share]
        return (
            held > 0,
            self._of_namespace[share.namespace] if held else 0,
            self._served_names.get(share.namespace, _NEVER),
            held,
            self._served.get(share, _NEVER),
            first is None,
            first or share,
            share,
        )
