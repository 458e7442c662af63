"""From a seed that fails to the shortest list of faults that still does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.simulation.fault import Fault


def shrunk(plan: Sequence[Fault], fails: Callable[[Sequence[Fault]], bool]) -> tuple[Fault, ...]:
    """Drops one after the other while it still fails, until none can go. `plan` itself must fail."""
    kept = tuple(plan)
    while True:
        shorter = (kept[:place] + kept[place + 1 :] for place in range(len(kept)))
        found = next((each for each in shorter if fails(each)), None)
        if found is None:
            return kept
        kept = found
