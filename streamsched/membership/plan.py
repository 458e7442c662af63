"""Who should hold what: pure, so that every worker that sees the same picture comes to the same plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def plan(names: Collection[str], workers: Collection[str], held: Mapping[str, str]) -> dict[str, str]:
    """A worker for each name; empty when there is no worker.

    Balanced: nobody holds two more than another. Sticky: a name stays with its holder (`held`: name → worker) unless
    balance needs it to go, so a balanced picture without orphans stays as it is, and a joining or leaving worker moves
    no more than it must. Depends on nothing but the sets and the mapping.

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
    # Those who hold most may hold one more: fewest moves.
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
