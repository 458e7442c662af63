"""What can befall a call on its way to a server and back, drawn from a seed before anything runs."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Kind(StrEnum):
    """The caller's process is killed or stops; an answer, or the call itself, is lost or slow.

    KILL_DURING, STOP_DURING and STRAY: the call is under way and has its effect whatever becomes of its caller.
    """

    KILL_BEFORE = "kill before"
    KILL_DURING = "kill during"
    KILL_AFTER = "kill after"
    STOP_BEFORE = "stop before"
    STOP_DURING = "stop during"
    LOST_CALL = "lost call"
    LOST_REPLY = "lost reply"
    STRAY = "stray call"
    SLOW_CALL = "slow call"
    SLOW_REPLY = "slow reply"


KILLS: Final = frozenset({Kind.KILL_BEFORE, Kind.KILL_DURING, Kind.KILL_AFTER})
STOPS: Final = frozenset({Kind.STOP_BEFORE, Kind.STOP_DURING})


@dataclass(frozen=True, slots=True)
class Fault:
    """`at`: the number of the call; `seconds`: how long a slow or stray call takes, a stop lasts, a killed process is
    away; `renamed`: whether a killed process comes back under another name."""

    at: int
    kind: Kind
    seconds: float
    renamed: bool

    def __str__(self) -> str:
        return f"call {self.at}: {self.kind}, {self.seconds:.2f} s{', renamed' if self.renamed else ''}"


def draw(seed: str, *, calls: int) -> tuple[Fault, ...]:
    """Up to a dozen faults among the first `calls` calls."""
    rng = random.Random(seed)
    places = sorted(rng.sample(range(calls), rng.randint(1, 12)))
    return tuple(
        Fault(
            at,
            rng.choice(list(Kind)),
            rng.choice((0.05, 0.5, 3.0, 9.0)) * rng.uniform(0.5, 1.5),
            rng.random() < 0.5,
        )
        for at in places
    )


class Fate:
    """Counts the calls of a run, and knows which of them meet a fault."""

    def __init__(self, plan: tuple[Fault, ...]) -> None:
        self._plan: Mapping[int, Fault] = MappingProxyType({each.at: each for each in plan})
        self._over = False
        self.calls = 0
        self.met: list[Fault] = []

    def next(self) -> Fault | None:
        """What befalls the call at hand."""
        found = None if self._over else self._plan.get(self.calls)
        self.calls += 1
        if found is not None:
            self.met.append(found)
        return found

    def end(self) -> None:
        """From here on all goes well."""
        self._over = True
