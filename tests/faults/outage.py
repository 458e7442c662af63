"""What may be taken away from an installation, and how it comes back."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from compose.kafka.cluster import Cluster, NotReadyError
from tests.faults.sites.far_side import Direction, Wire


class Taken(StrEnum):
    """One: the only broker of the log is killed and comes back. Three: one of three brokers, each in turn. Cut: the
    wires between the far side and the log; apart: the wire between the far side and PostgreSQL.
    """

    ONE = "one"
    THREE = "three"
    CUT = "cut"
    APART = "apart"

    @property
    def nodes(self) -> int:
        return 3 if self is Taken.THREE else 1

    @property
    def far(self) -> bool:
        """Whether half of the installation stands on the far side."""
        return self in {Taken.CUT, Taken.APART}


@dataclass(frozen=True, slots=True)
class Outage:
    """What is taken away, and brought back after so many seconds. `words` says what, for people."""

    words: str
    seconds: float
    begin: Callable[[], object]
    end: Callable[[], object]

    async def happen(self) -> tuple[float, float]:
        """Returns when all is there again: the wall-clock times when it went and when it was back."""
        began = time.time()
        await asyncio.to_thread(self.begin)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            await asyncio.to_thread(self.end)
        return began, time.time()


def outage(
    taken: Taken, number: int, *, rng: random.Random, cluster: Cluster, wires: Sequence[Wire], cut_s: float
) -> Outage:
    """The `number`th of its kind: brokers and directions take turns, and a broker comes back quickly or late. The last
    of the wires is PostgreSQL's."""
    match taken:
        case Taken.ONE | Taken.THREE:
            node = cluster.numbers[number % len(cluster.numbers)]
            late = bool(number // len(cluster.numbers) % 2)
            seconds = rng.uniform(8, 12) if late else rng.uniform(0, 0.5)
            words = f"broker {node} killed, back after {seconds:.1f} s"
            return Outage(words, seconds, partial(cluster.kill, node), partial(_started, cluster, node))
        case Taken.CUT | Taken.APART:
            wire = wires[0] if taken is Taken.CUT else wires[-1]
            direction = (Direction.BOTH, Direction.HERE, Direction.THERE)[number % 3]
            what = "log" if taken is Taken.CUT else "database"
            words = f"{what} cut off for {cut_s:g} s ({direction})"
            return Outage(words, cut_s, partial(wire.cut, direction), wire.heal)


def _started(cluster: Cluster, node: int) -> None:
    """A machine with much to do may take longer than one attempt allows."""
    try:
        cluster.start(node)
    except NotReadyError:
        cluster.kill(node)
        cluster.start(node)
