"""A named group: slots shared by schedules of any program and app.

A slot is a lease: a run holds it until it ends or is lost, without an explicit release. Each schedule declares the
limit it assumes; a limit set online for the whole group overrides the declared ones.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import LONGEST_NAME, MOST_SLOTS, check_count, check_most

#: Sentinel: `taken` is the sum of the slots' weights.
_COUNTED: Final = -1
_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Group:
    """`weight` of the group's slots are free.

    Attributes:
        limit: slots of the group, unless a limit was set online.
        weight: how many of them a run takes; never more than `limit`.
    """

    name: str
    limit: int
    weight: int = 1
    wait: bool = True

    def __post_init__(self) -> None:
        check_group_name(self.name, "$.name")
        check_count(self.limit, "$.limit", most=MOST_SLOTS)
        check_count(self.weight, "$.weight", most=MOST_SLOTS)
        if self.weight > self.limit:
            raise InvalidDefinitionError("$.weight", f"must be 1 to {self.limit}, the limit, but is {self.weight}")

    def __str__(self) -> str:
        return f"{self.weight} of {self.limit} slots of group {self.name}"


@dataclass(frozen=True, slots=True)
class GroupSlot:
    """The slots a non-terminal run holds in a group."""

    run: str
    weight: int


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The current state of a group.

    Attributes:
        limit: as set online; None: each schedule's declared limit applies.
        taken: sum of the weights held; computed from `slots` when omitted.
        slots: held slots, oldest first; empty when only the number was read. The sum can exceed the limit after the
            limit was lowered, or after a job was forced.
    """

    limit: int | None = None
    slots: tuple[GroupSlot, ...] = ()
    taken: int = _COUNTED

    def __post_init__(self) -> None:
        if self.taken == _COUNTED:
            object.__setattr__(self, "taken", sum([slot.weight for slot in self.slots]))

    def remove_runs(self, runs: Collection[str]) -> Occupancy:
        """The group after these runs have ended."""
        freed = sum(slot.weight for slot in self.slots if slot.run in runs)
        return replace(self, slots=tuple(slot for slot in self.slots if slot.run not in runs), taken=self.taken - freed)

    def add_run(self, run: str, weight: int) -> Occupancy:
        """The group after `run` has taken its slots."""
        return self.taken_by_all((GroupSlot(run, weight),))

    def taken_by_all(self, slots: Sequence[GroupSlot]) -> Occupancy:
        """The group after these slots were taken, in their order."""
        return Occupancy(self.limit, (*self.slots, *slots), self.taken + sum([slot.weight for slot in slots]))


def groups_of_manual_run(groups: Iterable[Group]) -> tuple[Group, ...]:
    """The groups a manual run takes slots in: those of all schedules of its program, each with the largest weight any
    of them has (of equal weights, the smallest limit). Sorted by name.
    """
    heaviest: dict[str, Group] = {}
    for group in groups:
        known = heaviest.get(group.name)
        if known is None or (group.weight, -group.limit) > (known.weight, -known.limit):
            heaviest[group.name] = group
    return tuple(heaviest[name] for name in sorted(heaviest))


def check_group_name(name: str, path: str) -> None:
    """Raises:
    InvalidDefinitionError: it is not a valid group name.
    """
    check_most(len(name), LONGEST_NAME, path, "characters")
    if not _NAME.fullmatch(name):
        raise InvalidDefinitionError(path, f"group name '{name}' must be one or more of {_NAME.pattern[:-1]}")
