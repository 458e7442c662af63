"""Chains of tasks in luigi: `python luigi_chains.py NODES LENGTH` prints the seconds. Needs luigi and nothing else.

What is done is in memory, which is as fast as luigi can be.
"""

from __future__ import annotations

import sys
import time
from typing import ClassVar

import luigi  # type: ignore[import-not-found]


class Chained(luigi.Task):
    """A link of a chain."""

    chain = luigi.Parameter()
    number = luigi.IntParameter()
    done: ClassVar[set[tuple[str, int]]] = set()

    def requires(self) -> list[Chained]:
        return [Chained(chain=self.chain, number=self.number - 1)] if self.number else []

    def complete(self) -> bool:
        return (self.chain, self.number) in self.done

    def run(self) -> None:
        self.done.add((self.chain, self.number))


def main(nodes: int, length: int) -> None:
    """Runs the chains."""
    wanted = [Chained(chain=str(n), number=length - 1) for n in range(nodes // length)]
    started = time.perf_counter()
    assert luigi.build(wanted, local_scheduler=True, no_lock=True, log_level="CRITICAL")
    seconds = time.perf_counter() - started
    assert len(Chained.done) == nodes
    print(seconds)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
