"""Plans which worker holds which name. Pure: workers with the same view compute the same plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def plan(names: Collection[str], workers: Collection[str], held: Mapping[str, str]) -> dict[str, str]:
    """A worker for each name; empty when there is no worker.

    Balanced: the numbers of names per worker differ by at most one. Sticky: a name stays with its holder (`held`: name
    → worker) unless balance requires a move, so a joining or leaving worker moves as few names as possible.

    >>> plan(["a", "b"], ["w1", "w2"], {"a": "w1", "b": "w1"})
    {'a': 'w1', 'b': 'w2'}
    """
    if not workers:
        return {}
    kept: dict[str, list[str]] = {worker: [] for worker in sorted(workers)}
    for name in sorted(names):
        if held.get(name) in kept:
            kept[held[name]].append(name)
    share, extra = divmod(len(names), len(kept))
    # The workers with most names get the quotas that are one larger: fewest moves.
    by_load = sorted(kept, key=lambda worker: (-len(kept[worker]), worker))
    quota = {worker: share + (rank < extra) for rank, worker in enumerate(by_load)}
    planned = {name: worker for worker, mine in kept.items() for name in mine[: quota[worker]]}
    load = {worker: min(len(kept[worker]), quota[worker]) for worker in kept}
    for name in sorted(names):
        if name not in planned:
            worker = min(kept, key=lambda w: (load[w] - quota[w], w))
            planned[name] = worker
            load[worker] += 1
    return dict(sorted(planned.items()))
