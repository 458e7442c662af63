"""Runs seed after seed: `make simulate SEEDS=n`, or `make simulate SEED=17 ONLY=40,95` to see one again, call by call.

The last line is `seeds N faults N jobs N lost 0 doubled 0 wrong 0`. A seed that fails is shrunk to the fewest
faults that still fail, and the same seed fails in the same way wherever the code is the same.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import Final

from tests.simulation.log import Bug
from tests.simulation.seed import Outcome, drawn, run
from tests.simulation.shrinking import shrunk
from tests.support.judgement import Judgement

#: In the place of numbers of calls.
_NONE: Final = "none"


@dataclass(slots=True)
class Tally:
    """What all seeds so far showed."""

    seeds: int = 0
    faults: int = 0
    jobs: int = 0
    judgement: Judgement = field(default_factory=Judgement)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.faults += len(outcome.met)
        self.jobs += outcome.jobs
        self.judgement.add(outcome.judgement)

    def __str__(self) -> str:
        return f"seeds {self.seeds} faults {self.faults} jobs {self.jobs} {self.judgement}"


def main() -> None:
    asked = _asked()
    warnings.simplefilter("ignore", RuntimeWarning)  # of coroutines that a killed process had not begun
    if asked.seed is not None:
        plan = [each for each in drawn(asked.seed) if asked.only is None or each.at in asked.only]
        _show(run(asked.seed, plan=plan, bug=asked.bug), trace=True)
        return
    tally = Tally()
    seeds = range(asked.first, asked.first + asked.seeds)
    with _outcomes(seeds, asked.bug, asked.processes) as outcomes:
        for outcome in outcomes:
            tally.add(outcome)
            if not outcome.judgement.clean:
                _show(outcome, trace=False)
                _shrink(outcome, asked.bug)
                break
            if tally.seeds % 500 == 0:
                say(str(tally))
    say(str(tally))
    sys.exit(not tally.judgement.clean)


@contextmanager
def _outcomes(seeds: Iterable[int], bug: Bug | None, processes: int) -> Iterator[Iterable[Outcome]]:
    if processes == 1:
        yield (run(seed, bug=bug) for seed in seeds)
        return
    with get_context("spawn").Pool(processes) as pool:
        yield pool.imap_unordered(partial(run, bug=bug), seeds, chunksize=8)


def _show(outcome: Outcome, *, trace: bool) -> None:
    say(f"seed {outcome.seed}: {outcome.calls} calls, {outcome.jobs} jobs, trace {outcome.digest}")
    for line in outcome.trace if trace else ():
        say(f"  {line}")
    for fault in outcome.met:
        say(f"  {fault}")
    for word in outcome.judgement.words:
        say(f"  {word}")


def _shrink(outcome: Outcome, bug: Bug | None) -> None:
    fewest = shrunk(outcome.met, lambda plan: not run(outcome.seed, plan=plan, bug=bug).judgement.clean)
    say(f"enough of them to fail ({len(fewest)} of {len(outcome.met)}); see it again:")
    say(f"  make simulate SEED={outcome.seed} ONLY={','.join(str(each.at) for each in fewest) or _NONE}")
    for fault in fewest:
        say(f"  {fault}")


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make simulate")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one alone, call by call")
    parser.add_argument("--only", type=_numbers, help=f"with only the faults of these calls: 17,204, or {_NONE}")
    parser.add_argument("--processes", type=int, default=1, help="how many run at the same time")
    parser.add_argument("--bug", type=Bug, choices=list(Bug), help="with this bug in the doubles")
    return parser.parse_args()


def _numbers(listed: str) -> frozenset[int]:
    return frozenset() if listed == _NONE else frozenset(int(number) for number in listed.split(","))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
