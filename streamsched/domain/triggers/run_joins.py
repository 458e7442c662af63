"""For which runs ends of programs are joined: the ancestor that a deployment chooses for an `&` of programs.

When `a` starts `b` and `c`, `program("b") & program("c")` means the `b` and the `c` of one run of `a`. So a trigger
that is an `&` of programs counts per run of the nearest common ancestor of all of them, if there is exactly one and it
is of the same namespace (ADR 11). A program is an ancestor of another when each way by which schedules start the other
goes through it, so that no run that a trigger started is without a key; a program is an ancestor of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple, assert_never

from streamsched.domain.names import ProgramRef
from streamsched.domain.triggers.composite import AllOf, AnyOf, AtLeast
from streamsched.domain.triggers.correlation import Per, usual_policy
from streamsched.domain.triggers.leaf import (
    At,
    Cron,
    CustomEvent,
    Every,
    Partitions,
    ProgramStatus,
    SinceLastRun,
    StreamGrowth,
    Total,
)
from streamsched.domain.triggers.timed import OnExpiry, Quiet, Silence, Then, Unless, Within
from streamsched.domain.triggers.trigger import Trigger, children, leaves

#: Most programs whose ancestors are looked for, and most passes over those that start each other in circles.
MOST_PROGRAMS: Final = 20_000
_PASSES: Final = 100


class RunJoin(NamedTuple):
    """How an `&` of programs counts.

    Attributes:
        trigger: as it is to be stored.
        text: what a plan says: per run of which program, or why not.
    """

    trigger: Trigger
    text: str


class ProgramChains:
    """Which programs start which others, by the triggers of schedules. Sets of programs are the bits of a number, each
    at the place of its program; a program comes after those that start it, except in a circle.

    Attributes:
        known: the programs, in the order of their places; none when they are more than `MOST_PROGRAMS`.
    """

    def __init__(self, started: Mapping[ProgramRef, Sequence[Trigger]]) -> None:
        """`started`: program → the triggers of the schedules that start it."""
        self._started = started
        found = _in_order(started)
        self.known: Sequence[ProgramRef] = found if len(found) <= MOST_PROGRAMS else ()
        self._places = {program: place for place, program in enumerate(self.known)}

    def bit(self, program: ProgramRef) -> int:
        """The set of this program; empty when it is not known."""
        return 1 << self._places[program] if program in self._places else 0

    def programs_above(self, program: ProgramRef) -> int:
        """The program, if it is known, and all from which some way leads to it."""
        return self._above_by_place[self._places[program]] if program in self._places else 0

    def required_programs(self, program: ProgramRef) -> int:
        """The program, if it is known, and those through which each way to it goes."""
        return self._required_by_place[self._places[program]] if program in self._places else 0

    @cached_property
    def _above_by_place(self) -> Sequence[int]:
        found = [1 << place for place in range(len(self.known))]

        def step(place: int, trigger: Trigger) -> int:
            return found[place] | _any(found[self._places[leaf.program]] for leaf in _contributing_ends(trigger))

        return self._repeat_until_stable(found, step) or found

    @cached_property
    def _required_by_place(self) -> Sequence[int]:
        everything = (1 << len(self.known)) - 1
        alone = [1 << place for place in range(len(self.known))]
        found = [everything if self._started.get(program) else alone[place] for program, place in self._places.items()]

        def step(place: int, trigger: Trigger) -> int:
            return found[place] & (_required_bits(trigger, self._places, found) | alone[place])

        return self._repeat_until_stable(found, step) or alone

    def _repeat_until_stable(self, found: list[int], step: Callable[[int, Trigger], int]) -> Sequence[int] | None:
        """`found` after so many passes that another one changes nothing; None when that takes too many."""
        for _ in range(_PASSES):
            before = list(found)
            for program, place in self._places.items():
                for trigger in self._started.get(program, ()):
                    found[place] = step(place, trigger)
            if found == before:
                return found
        return None


def run_join(trigger: Trigger, chains: ProgramChains, namespace: str) -> RunJoin | None:
    """How a deployed trigger of a namespace counts ends of programs; None when it joins none, or correlates already."""
    programs = list(dict.fromkeys(_joined_programs(trigger)))
    if len(programs) < 2:
        return None
    found = _nearest(trigger, programs, chains, namespace)
    if isinstance(found, str):
        return RunJoin(trigger, f"counts ends of different runs together: {found}")
    joined = Per(trigger, (), full=usual_policy(found), run_of=found)
    return RunJoin(joined, f"joins per run of {found}; `mixed_runs()` would count all together")


def _joined_programs(trigger: Trigger) -> Iterator[ProgramRef]:
    """The programs of each `&` of the trigger; none of one that correlates."""
    match trigger:
        case Per():
            return
        case AllOf():
            yield from (leaf.program for leaf in leaves(trigger) if isinstance(leaf, ProgramStatus))
        case _:
            for child in children(trigger):
                yield from _joined_programs(child)


def _nearest(
    trigger: Trigger, programs: Sequence[ProgramRef], chains: ProgramChains, namespace: str
) -> ProgramRef | str:
    """The ancestor, or why there is none."""
    if (why := _reason_not_joined(trigger)) is not None:
        return why
    if not chains.known:
        return f"more than {MOST_PROGRAMS:,} programs start each other; `per_run_of` says of which"
    common = _all(chains.required_programs(program) for program in programs)
    if not common:
        return _why_none(programs, chains)
    nearest = _last_program(common, chains)
    if others := common & ~chains.required_programs(nearest):
        other = _last_program(others, chains)
        return f"they have several ancestors, such as {other} and {nearest}; `per_run_of` chooses one"
    if nearest.namespace != namespace:
        return f"their ancestor {nearest} is of another namespace; `per_run_of` joins per run of it"
    return nearest


def _reason_not_joined(trigger: Trigger) -> str | None:
    """Why a trigger counts all together, whatever its programs descend from."""
    match trigger:
        case AllOf(mixed_runs=True):
            return "`mixed_runs()` says so"
        case Within(trigger=only) | Quiet(trigger=only):
            return _reason_not_joined(only)
        case AllOf(triggers=below):
            return next((why for child in below if (why := _reason_not_joined(child)) is not None), None)
        case ProgramStatus(times=times, program=program):
            return None if times == 1 else f"it waits for {times} runs of {program}"
        case _:
            return "it is no `&` of programs alone"


def _why_none(programs: Sequence[ProgramRef], chains: ProgramChains) -> str:
    if not (some := _all(chains.programs_above(program) for program in programs)):
        return "they have no common ancestor"
    ancestor = _last_program(some, chains)
    other = next(each for each in programs if not chains.required_programs(each) & chains.bit(ancestor))
    return f"{other} also starts without {ancestor}; `per_run_of` counts only the runs that descend from it"


def _last_program(bits: int, chains: ProgramChains) -> ProgramRef:
    """That which comes after all others in the set."""
    return chains.known[bits.bit_length() - 1]


def _in_order(started: Mapping[ProgramRef, Sequence[Trigger]]) -> list[ProgramRef]:
    """The programs, each after those that start it, except in a circle."""
    found: dict[ProgramRef, None] = {}
    seen = set[ProgramRef]()
    for program in sorted(started):
        todo = [(program, False)]
        while todo:
            each, done = todo.pop()
            if done:
                found[each] = None
            elif each not in seen:
                seen.add(each)
                todo.append((each, True))
                todo += [
                    (leaf.program, False) for trigger in started.get(each, ()) for leaf in _contributing_ends(trigger)
                ]
    return list(found)


def _contributing_ends(trigger: Trigger) -> Iterator[ProgramStatus]:
    """The ends of programs that a job of the trigger may have come from."""
    match trigger:
        case ProgramStatus():
            yield trigger
        case Silence():
            return
        case Unless(wanted=wanted):
            yield from _contributing_ends(wanted)
        case _:
            for child in children(trigger):
                yield from _contributing_ends(child)


def _required_bits(trigger: Trigger, places: Mapping[ProgramRef, int], bits: Sequence[int]) -> int:
    """The programs from which each job of the trigger descends."""
    match trigger:
        case ProgramStatus(program=program):
            return bits[places[program]]
        case AllOf(triggers=below):
            return _any(_required_bits(child, places, bits) for child in below)
        case AtLeast(count=count, triggers=below) if count == len(below):
            return _any(_required_bits(child, places, bits) for child in below)
        case AnyOf(triggers=below) | AtLeast(triggers=below):
            return _all(_required_bits(child, places, bits) for child in below)
        case Then(first=first, second=second):
            return _required_bits(first, places, bits) | _required_bits(second, places, bits)
        case Within(trigger=only, then=OnExpiry.FIRE):
            return _all(_required_bits(leaf, places, bits) for leaf in leaves(only))
        case Unless(wanted=only) | Within(trigger=only) | Quiet(trigger=only) | Per(trigger=only):
            return _required_bits(only, places, bits)
        case Silence() | Cron() | Every() | At() | SinceLastRun():
            return 0
        case Partitions() | Total() | StreamGrowth() | CustomEvent():
            return 0
        case _:
            assert_never(trigger)


def _any(parts: Iterable[int]) -> int:
    found = 0
    for part in parts:
        found |= part
    return found


def _all(parts: Iterable[int]) -> int:
    found = -1
    for part in parts:
        found &= part
    return found
