"""Barriers: how the home of a schedule knows that no earlier event is still on its way to it (promise G16).

Events of two keys pass through two homes on their way to a schedule, and the quicker home may bring the later event
first. The signals of a schedule whose result depends on their order therefore wait for a round of barriers:

| stage       | from → to                         | when                                                               |
|-------------|-----------------------------------|--------------------------------------------------------------------|
| `asked`     | its shard, the asker → each shard | signals wait, and no round is in flight                            |
| `passed`    | each shard → each of `homes`      | it has forwarded every public record that it found at this barrier |
| `answered`  | each of `homes` → the asker       | at once: what came before has been forwarded before                |
| `continued` | the asker → itself                | there is more to judge than one turn takes                         |
| `lapsed`    | the asker → itself                | answers are missing after a bound: the order is unknown            |

Each step follows the events in their own partitions. So when all answers are there, the asker has every event that the
log took up to `frontier_ms`, and judges the waiting signals up to there in the order of their times. All it decides by
is in its partition of the log: replay decides alike (promise G12).
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Stage(StrEnum):
    """How far a barrier is."""

    ASKED = "asked"
    PASSED = "passed"
    ANSWERED = "answered"
    CONTINUED = "continued"
    LAPSED = "lapsed"


class Barrier(NamedTuple):
    """A barrier on its way.

    Attributes:
        asker: the shard that waits for it.
        round: the number of its round at the asker; later rounds have larger ones.
        homes: the shards through which events of the schedules that wait can come, ascending.
        frontier_ms: the newest log time among the signals that waited when the round began.
    """

    stage: Stage
    asker: int
    round: int
    homes: tuple[int, ...]
    frontier_ms: int


class Round(NamedTuple):
    """The round in flight of an asker.

    Attributes:
        barrier: as it was asked.
        missing: the number of answers that have not come; 0: signals are being judged.
        lapsed: it ended without all answers.
        singly: one signal is judged in each turn, because a turn with more of them has failed.
    """

    barrier: Barrier
    missing: int
    lapsed: bool = False
    singly: bool = False

    def advance(self, barrier: Barrier) -> Round:
        """The round after one more record of it; the same object if the record is not of it, or changes nothing."""
        if barrier.round != self.barrier.round or not self.missing:
            return self
        if barrier.stage is Stage.LAPSED:
            return self._replace(missing=0, lapsed=True)
        return self._replace(missing=self.missing - 1) if barrier.stage is Stage.ANSWERED else self


def begin_round(number: int, asker: int, homes: frozenset[int], frontier_ms: int, *, shards: int) -> Round:
    """A round in which every shard answers through each of these homes."""
    barrier = Barrier(Stage.ASKED, asker, number, tuple(sorted(homes)), frontier_ms)
    return Round(barrier, shards * len(homes))
