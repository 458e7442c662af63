"""The verdict on deliveries, by what was scheduled and when connections broke: nothing in it asks the product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

#: A delivery that began before a break may still arrive for so long, in seconds.
_LINGER_S: Final = 1.0


class Planned(NamedTuple):
    """A job that was scheduled: the times of its ticks (Unix seconds, ascending), and how often each must arrive."""

    ticks: Sequence[float]
    attempts: int = 1


class DaprVerdict(NamedTuple):
    """Ticks that did not arrive; deliveries before the first tick was due, of jobs that were deleted or unknown, that
    repeat one, and those of them that no break explains; how late each tick arrived (seconds).
    """

    ticks: int
    lost: int
    early: int
    unplanned: int
    repeated: int
    unexplained: int
    late: Sequence[float]

    @property
    def well(self) -> bool:
        return not (self.lost or self.early or self.unplanned or self.unexplained)

    def line(self) -> str:
        return (
            f"lost {self.lost} early {self.early} unplanned {self.unplanned} unexplained {self.unexplained} "
            f"repeated {self.repeated}"
        )


def judge(
    planned: Mapping[str, Planned], deliveries: Sequence[tuple[float, str]], broken_at: Sequence[float] = ()
) -> DaprVerdict:
    """`broken_at`: when launchers were killed, and when the sidecar lost or left a stream, which cancels what it is
    delivering (Unix seconds).

    An arrival does not say of which tick it is. So each is held to be of the earliest tick that has not arrived as
    often as it must; when that one is not due, it is a repeat. A job may have as many repeats as there are such
    times between its deliveries. A tick that came early is therefore lost, or an unexplained repeat.
    """
    by_name: dict[str, list[float]] = {}
    for at, name in sorted(deliveries):
        by_name.setdefault(name, []).append(at)
    lost = early = repeated = unexplained = 0
    late: list[float] = []
    for name, plan in planned.items():
        times = by_name.get(name, [])
        due = [tick for tick in plan.ticks for _ in range(plan.attempts)]
        met, repeats = 0, 0
        for at in times:
            if met < len(due) and at >= due[met]:
                if met % plan.attempts == 0:
                    late.append(at - due[met])
                met += 1
            elif met == 0:
                early += 1
            else:
                repeats += 1
        lost += len(plan.ticks) - met // plan.attempts
        repeated += repeats
        broken = sum(any(one - _LINGER_S <= each <= next_ for each in broken_at) for one, next_ in pairwise(times))
        unexplained += max(0, repeats - broken)
    unplanned = sum(len(times) for name, times in by_name.items() if name not in planned)
    ticks = sum(len(each.ticks) for each in planned.values())
    return DaprVerdict(ticks, lost, early, unplanned, repeated, unexplained, late)
