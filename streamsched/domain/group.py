"""A named group: slots that schedules of any program share, whatever app they are of.

A slot is a lease: a run holds it until it ends or is lost, and nobody has to give it back. Each schedule says what it
takes for the group's limit; a limit set online, for the whole group, is above what they say.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError

#: Stands for: count the slots.
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
        if self.limit < 1:
            raise InvalidDefinitionError("$.limit", f"must be at least 1 but is {self.limit}")
        if not 1 <= self.weight <= self.limit:
            raise InvalidDefinitionError("$.weight", f"must be 1 to {self.limit}, the limit, but is {self.weight}")

    def __str__(self) -> str:
        return f"{self.weight} of {self.limit} slots of group {self.name}"


@dataclass(frozen=True, slots=True)
class Slot:
    """What a non-terminal run holds of a group."""

    run: str
    weight: int


@dataclass(frozen=True, slots=True)
class Occupancy:
    """A group as it stands.

    Attributes:
        limit: as set online; None: nobody did, so each schedule's own counts.
        taken: how many slots are held, all weights together; counted when it is left out.
        slots: what is held, oldest first; none when nobody has to know by whom. More than the limit when that was
            lowered, or when a job was launched all the same.
    """

    limit: int | None = None
    slots: tuple[Slot, ...] = ()
    taken: int = _COUNTED

    def __post_init__(self) -> None:
        if self.taken == _COUNTED:
            object.__setattr__(self, "taken", sum([slot.weight for slot in self.slots]))

    def without(self, runs: Collection[str]) -> Occupancy:
        """The group when these runs have ended."""
        freed = sum(slot.weight for slot in self.slots if slot.run in runs)
        return replace(self, slots=tuple(slot for slot in self.slots if slot.run not in runs), taken=self.taken - freed)

    def taken_by(self, run: str, weight: int) -> Occupancy:
        """The group after `run` has taken its slots."""
        return self.taken_by_all((Slot(run, weight),))

    def taken_by_all(self, slots: Sequence[Slot]) -> Occupancy:
        """The group after each of these was taken, in their order."""
        return Occupancy(self.limit, (*self.slots, *slots), self.taken + sum([slot.weight for slot in slots]))


def taken_by_hand(groups: Iterable[Group]) -> tuple[Group, ...]:
    """What a run started by hand takes, of all that its program's schedules ask for: of each group as much as the
    heaviest of them, for it does what they do. Sorted by name.
    """
    heaviest: dict[str, Group] = {}
    for group in groups:
        known = heaviest.get(group.name)
        if known is None or (group.weight, -group.limit) > (known.weight, -known.limit):
            heaviest[group.name] = group
    return tuple(heaviest[name] for name in sorted(heaviest))


def check_group_name(name: str, path: str) -> None:
    """Raises:
    InvalidDefinitionError: it is no name of a group.
    """
    if not _NAME.fullmatch(name):
        raise InvalidDefinitionError(
            path, f"group name '{name}' may only hold {_NAME.pattern[:-1]}, and something of it"
        )
