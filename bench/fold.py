"""Signals folded per second by one core: decode the record, fold it; the state is encoded at a turn's end.

    make bench NAME=fold            python -m bench.fold --rounds 9

A signal is the forwarded bytes of one event that names one partition. The schedules want 7 partitions of each of 1, 10
or 100 datasets, which come in turn; so one in 7, 70 or 700 signals fires. States stay decoded in memory between turns
of 1,000 signals, as in a worker. Measured in CPU seconds of this process, so neighbours on the machine blur it less.
`…_launching` encodes the ready jobs too, each event once more in full.

`cost_100k_over_10_schedules` folds into 100,000 schedules in turn and into 10. `cost_after_10k_counted_over_10` counts
on top of 10,000 accumulated events and of 10. `bytes_per_open` is an encoded accumulation of one leaf with 3 events.
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
from streamsched.codec import launch, signal, state
from streamsched.domain.event import Event, Partition, PartitionsAdded
from streamsched.domain.fold import TriggerState, fold
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.signal import Occurred, Put
from streamsched.domain.trigger import Partitions, Trigger

AT = datetime(2013, 1, 7, tzinfo=UTC)
TURN = 1_000
WANTED = 7


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of CPU for each of several rounds of `signals` signals."""

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


def dataset(place: int) -> DatasetRef:
    return DatasetRef("default", f"dataset-{place}")


def trigger(leaves: int, wanted: int = WANTED) -> Trigger:
    several: list[Trigger] = [Partitions(dataset(place), wanted) for place in range(leaves)]
    return reduce(lambda one, other: one & other, several)


def schedule(place: int) -> ScheduleRef:
    return ScheduleRef("default", "bench", f"schedule-{place}")


def created(place: int, wanted: Trigger) -> TriggerState:
    made = fold(None, Put(schedule(place), 1, True, wanted), at=AT).state
    assert made is not None
    return made


def record(place: int, leaves: int) -> tuple[bytes, bytes]:
    partition = Partition(f"day={place}", {"day": str(place)}, bytes=1_048_576, rows=27_004)
    fact = PartitionsAdded(dataset(place % leaves), (partition,), 1)
    return signal.encode(Occurred(Event(f"{place:032x}", "pfs/default.bench", AT, fact)))


def turns(records: Sequence[tuple[bytes, bytes]], states: list[TriggerState], launching: bool) -> None:
    """Folds the records into the states in turn, as a schedule's home does."""
    places = len(states)
    for start in range(0, len(records), TURN):
        touched: set[int] = set()
        for number, (key, value) in enumerate(records[start : start + TURN], start):
            place = number % places
            folded = fold(states[place], signal.decode(key, value), at=AT)
            assert folded.state is not None
            states[place] = folded.state
            touched.add(place)
            if launching:
                for job in folded.jobs:
                    launch.encode(job)
        for place in touched:
            state.encode(states[place])


def measured(signals: int, rounds: int, prepare: Callable[[], Callable[[], object]]) -> Measured:
    """`rounds` rounds, each on fresh states, after one that warms up."""
    taken: list[float] = []
    for _ in range(rounds + 1):
        work = prepare()
        started = process_time()
        work()
        taken.append(process_time() - started)
    return Measured(signals, tuple(taken[1:]))


def of_leaves(leaves: int, rounds: int, signals: int, *, launching: bool = False) -> Measured:
    records = [record(place, leaves) for place in range(signals)]
    return measured(signals, rounds, lambda: partial(turns, records, [created(0, trigger(leaves))], launching))


def of_schedules(schedules: int, rounds: int, signals: int) -> Measured:
    """Folding alone: what grows with schedules would show here, without the encoding of each one's state."""
    seen = [signal.decode(*record(place, 1)) for place in range(1_000)]

    def prepare() -> Callable[[], object]:
        states = [created(place, trigger(1)) for place in range(schedules)]

        def work() -> None:
            for number in range(signals):
                folded = fold(states[number % schedules], seen[number % 1_000], at=AT)
                assert folded.state is not None
                states[number % schedules] = folded.state

        return work

    return measured(signals, rounds, prepare)


def after_counted(counted: int, rounds: int, signals: int) -> Measured:
    """Folding alone, each signal on top of the same accumulation of `counted` events."""
    seen = [signal.decode(*record(place, 1)) for place in range(1_000)]
    full = created(0, trigger(1, 10 * counted + 10))
    for number in range(counted):
        grown = fold(full, seen[number % 1_000], at=AT).state
        assert grown is not None
        full = grown

    def work() -> None:
        for number in range(signals):
            fold(full, seen[number % 1_000], at=AT)

    return measured(signals, rounds, lambda: work)


def bytes_per_open() -> int:
    open_state = created(0, trigger(1))
    for place in range(3):
        grown = fold(open_state, signal.decode(*record(place, 1)), at=AT).state
        assert grown is not None
        open_state = grown
    return len(state.encode(open_state))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--signals", type=int, default=20_000)
    asked = arguments.parse_args()
    rounds, signals = asked.rounds, asked.signals

    print(f"machine  {platform.machine()} {platform.system()} {platform.release()}")
    print(f"versions streamsched {__version__}, Python {platform.python_version()}, orjson {orjson.__version__}")
    print(f"command  python -m bench.fold {' '.join(sys.argv[1:])}".rstrip())
    print(f"rounds   {rounds} of {signals:,} signals; median (spread), CPU time of one process\n")

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
    print(many.line("fold alone, 100,000 schedules"))
    print(few.line("fold alone, 10 schedules"))
    full, fresh = (after_counted(counted, rounds, signals) for counted in (10_000, 10))
    print(full.line("fold alone, after 10,000 events counted"))
    print(fresh.line("fold alone, after 10 events counted"))
    result["cost_100k_over_10_schedules"] = round(many.microseconds / few.microseconds, 2)
    result["cost_after_10k_counted_over_10"] = round(full.microseconds / fresh.microseconds, 2)
    result["bytes_per_open"] = bytes_per_open()
    print(f"\nRESULT {orjson.dumps(result).decode()}")


if __name__ == "__main__":
    main()
