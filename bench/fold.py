"""Benchmark of the fold: signals per second and core, including decoding, and encoding the states once per turn.

    make bench NAME=fold            python -m bench.fold --rounds 9

A signal is the forwarded record of an event with one partition. Schedules wait for 7 partitions of each of 1, 10 or 100
datasets, whose events arrive round robin; so one in 7, 70 or 700 signals fires. States stay decoded in memory between
turns of 1,000 signals, and each turn writes the changed rows at its end, as in a worker. Measured in CPU seconds of
this process, which other load on the machine affects less. `…_launching` also encodes the ready jobs with all events.

`cost_100k_over_10_schedules` folds into 100,000 schedules round robin and into 10. `cost_after_10k_counted_over_10`
counts on top of 10,000 accumulated events and of 10. `bytes_per_open` is the size of the rows of a leaf with 3 events.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial, reduce
from time import process_time

import orjson

from streamsched import __version__
from streamsched.codec.records import launch, signal
from streamsched.domain.events.event import Event, Partition, PartitionsAdded, schedule_key
from streamsched.domain.fold.fold import Folded, TriggerState, fold
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.signals.signal import Occurred, Put
from streamsched.domain.triggers.trigger import Partitions, Trigger
from streamsched.process.memory import configure_memory
from streamsched.stream.agents.accumulated import TriggerStates

AT = datetime(2013, 1, 7, tzinfo=UTC)
TURN = 1_000
WANTED = 7


@dataclass(frozen=True, slots=True)
class Measured:
    """CPU seconds of each round of `signals` signals."""

    signals: int
    rounds: tuple[float, ...]

    @property
    def per_s(self) -> float:
        return self.signals / statistics.median(self.rounds)

    @property
    def microseconds(self) -> float:
        return 1e6 * statistics.median(self.rounds) / self.signals

    def line(self, name: str) -> str:
        low, high = self.signals / max(self.rounds), self.signals / min(self.rounds)
        spread = f"{low:,.0f} – {high:,.0f}"
        return f"{name:<44} {self.per_s:>10,.0f} signals/s   ({spread})   {self.microseconds:.2f} µs"


def dataset(number: int) -> DatasetRef:
    return DatasetRef("default", f"dataset-{number}")


def trigger(leaves: int, wanted: int = WANTED) -> Trigger:
    several: list[Trigger] = [Partitions(dataset(number), wanted) for number in range(leaves)]
    return reduce(lambda one, other: one & other, several)


def schedule(number: int) -> ScheduleRef:
    return ScheduleRef("default", "bench", f"schedule-{number}")


def create(number: int, wanted: Trigger) -> TriggerState:
    made = fold(None, Put(schedule(number), 1, True, wanted), at=AT).state
    assert made is not None
    return made


def record(number: int, leaves: int) -> tuple[bytes, bytes]:
    partition = Partition(f"day={number}", {"day": str(number)}, bytes=1_048_576, rows=27_004)
    fact = PartitionsAdded(dataset(number % leaves), (partition,), 1)
    return signal.encode(Occurred(Event(f"{number:032x}", "pfs/default.bench", AT, fact)))


class Home:
    """Schedules as in a worker: states in memory, and the table rows that a turn writes at its end."""

    def __init__(self, states: Sequence[TriggerState]) -> None:
        self.table: dict[bytes, bytes] = {}
        self.keys = [schedule_key(each.schedule).encode() for each in states]
        self.accumulated = TriggerStates(self.table)
        for key, each in zip(self.keys, states, strict=True):
            self.accumulated.state(key)
            self.accumulated.fold(key, Folded(each))
        self.accumulated.store()

    def turn(self, records: Sequence[tuple[bytes, bytes]], first: int = 0, *, launching: bool = False) -> None:
        """Folds the records into the schedules, round robin."""
        places, keys, accumulated = len(self.keys), self.keys, self.accumulated
        for number, (key, value) in enumerate(records, first):
            home = keys[number % places]
            before = accumulated.state(home)
            folded = fold(before, signal.decode(key, value), at=AT)
            if folded.state is not before:
                accumulated.fold(home, folded)
            if launching:
                for job in folded.jobs:
                    launch.encode(job)
        accumulated.store()


def turns(records: Sequence[tuple[bytes, bytes]], home: Home, size: int = TURN, *, launching: bool = False) -> None:
    """Folds all records in turns of `size`."""
    for start in range(0, len(records), size):
        home.turn(records[start : start + size], start, launching=launching)


def measure_rounds(signals: int, rounds: int, prepare: Callable[[], Callable[[], object]]) -> Measured:
    """Measures `rounds` rounds, each on fresh states, after one to warm up."""
    taken: list[float] = []
    for _ in range(rounds + 1):
        work = prepare()
        started = process_time()
        work()
        taken.append(process_time() - started)
    return Measured(signals, tuple(taken[1:]))


def of_leaves(leaves: int, rounds: int, signals: int, *, launching: bool = False) -> Measured:
    records = [record(number, leaves) for number in range(signals)]
    return measure_rounds(
        signals, rounds, lambda: partial(turns, records, Home([create(0, trigger(leaves))]), launching=launching)
    )


def of_schedules(schedules: int, rounds: int, signals: int) -> Measured:
    """Decodes and folds, to show costs that grow with the number of schedules. Writes no rows: a turn over 100,000
    schedules would write 1,000, one over ten only ten.
    """
    records = [record(number, 1) for number in range(1_000)]

    def prepare() -> Callable[[], object]:
        states = [create(number, trigger(1)) for number in range(schedules)]

        def work() -> None:
            for number in range(signals):
                folded = fold(states[number % schedules], signal.decode(*records[number % 1_000]), at=AT)
                assert folded.state is not None
                states[number % schedules] = folded.state

        return work

    return measure_rounds(signals, rounds, prepare)


def after_counted(counted: int, rounds: int, signals: int) -> Measured:
    """Decodes, folds and writes rows in turns of 100 signals, with `counted` events counted before."""
    records = [record(number, 1) for number in range(signals)]

    def prepare() -> Callable[[], object]:
        home = Home([create(0, trigger(1, 10 * (counted + signals)))])
        turns([record(number, 1) for number in range(counted)], home)
        return partial(turns, records, home, 100)

    return measure_rounds(signals, rounds, prepare)


def bytes_per_open() -> int:
    home = Home([create(0, trigger(1))])
    home.turn([record(number, 1) for number in range(3)])
    return sum(len(key) + len(value) for key, value in home.table.items())


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--signals", type=int, default=20_000)
    args = arguments.parse_args()
    rounds, signals = args.rounds, args.signals

    print(f"machine  {platform.machine()} {platform.system()} {platform.release()}")
    print(f"versions streamsched {__version__}, Python {platform.python_version()}, orjson {orjson.__version__}")
    print(f"command  python -m bench.fold {' '.join(sys.argv[1:])}".rstrip())
    print(f"rounds   {rounds} of {signals:,} signals; median (spread), CPU time of one process\n")

    configure_memory()  # as a worker does
    result: dict[str, float] = {}
    for leaves in (1, 10, 100):
        named = "1 leaf" if leaves == 1 else f"{leaves} leaves"
        found = of_leaves(leaves, rounds, signals)
        print(found.line(f"decode + fold + encode state, {named}"))
        result[f"per_s_{named.replace(' ', '_')}"] = round(found.per_s)
    found = of_leaves(1, rounds, signals, launching=True)
    print(found.line("the same and encode jobs, 1 leaf"))
    result["per_s_1_leaf_launching"] = round(found.per_s)
    many, few = (of_schedules(schedules, rounds, 100_000) for schedules in (100_000, 10))
    print(many.line("decode + fold, 100,000 schedules"))
    print(few.line("decode + fold, 10 schedules"))
    full, fresh = (after_counted(counted, rounds, signals) for counted in (10_000, 10))
    print(full.line("the same in turns of 100, after 10,000 counted"))
    print(fresh.line("the same in turns of 100, after 10 counted"))
    result["cost_100k_over_10_schedules"] = round(many.microseconds / few.microseconds, 2)
    result["cost_after_10k_counted_over_10"] = round(full.microseconds / fresh.microseconds, 2)
    result["bytes_per_open"] = bytes_per_open()
    print(f"\nRESULT {orjson.dumps(result).decode()}")


if __name__ == "__main__":
    main()
