"""The places for streams of a process, and the fair share of them that one caller and one namespace may hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from streamsched.domain.access.grant import EVERYWHERE, Caller
from streamsched.domain.errors import ConflictError


class Places:
    """Belongs to one event loop. A caller without a role in all namespaces holds at most a tenth of the places, the
    callers of a namespace together a quarter; any other caller at most half.

    Args:
        what: what a place is for, such as `follow decisions`.
        most: places of all callers.
    """

    def __init__(self, what: str, most: int) -> None:
        self._what = what
        self._most = most
        self._total = 0
        self._held: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """Places that are held."""
        return self._total

    def check(self, caller: Caller) -> None:
        """Raises:
        ConflictError: the caller, a namespace of it, or all together hold as many as they may.
        """
        if self._total >= self._most:
            raise ConflictError(f"{self._most} clients {self._what} at this process, the most it takes")
        for holder, share in self._shares(caller).items():
            if self._held[holder] >= share:
                raise ConflictError(f"{holder} has {share} places to {self._what} at this process, its share")

    @contextmanager
    def hold(self, caller: Caller) -> Iterator[None]:
        """A place while the block lasts.

        Raises:
            ConflictError: as `check`.
        """
        self.check(caller)
        holders = list(self._shares(caller))
        self._total += 1
        self._held.update(holders)
        try:
            yield
        finally:
            self._total -= 1
            self._held.subtract(holders)
            self._held = +self._held

    def _shares(self, caller: Caller) -> dict[str, int]:
        namespaces = sorted({grant.namespace for grant in caller.grants})
        if EVERYWHERE in namespaces:
            return {caller.name: max(1, self._most // 2)}
        of_namespaces = {f"namespace {each}": max(1, self._most // 4) for each in namespaces}
        return {caller.name: max(1, self._most // 10), **of_namespaces}
