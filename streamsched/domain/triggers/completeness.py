"""Completeness of a key: which finer periods a roll-up expects, which of them have come, and which came late or more
than once. The only place where this is worked out; pages, commands, the API and the arguments of runs show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from streamsched.domain.events.event import Event, PartitionsAdded
from streamsched.domain.time.period import Period, period
from streamsched.domain.triggers.correlation import Per, event_slices

#: Most spans that are named in a text.
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class KeyCompleteness:
    """What a leaf has of a key.

    Attributes:
        expected: the finer periods of the key, in order of time.
        present: those of them that have come.
    """

    expected: tuple[str, ...]
    present: frozenset[str]

    @property
    def missing(self) -> tuple[str, ...]:
        """The periods that have not come, in order of time."""
        return tuple(each for each in self.expected if each not in self.present)

    def spans(self) -> Iterator[tuple[str, str]]:
        """The first and the last of each run of missing periods that follow each other."""
        first = last = ""
        for each in self.expected:
            if each not in self.present:
                first, last = first or each, each
            elif first:
                yield first, last
                first = ""
        if first:
            yield first, last

    def __str__(self) -> str:
        """What is missing, such as `2026-03-01T05 and 2026-03-01T07 to 2026-03-01T23`; "" when nothing is."""
        named = [first if first == last else f"{first} to {last}" for first, last in self.spans()]
        more = len(named) - _NAMED
        if more > 0:
            named = [*named[:_NAMED], f"{more} more spans"]
        return " and ".join(filter(None, (", ".join(named[:-1]), *named[-1:])))


def completeness(per: Per, key: str, events: Iterable[Event]) -> KeyCompleteness | None:
    """What has come for a key, of the events that a leaf has counted under it. None: nothing says what belongs to the
    key, because it is no roll-up or names no period.
    """
    if per.grain is None or per.rolled_up_to is None:
        return None
    whole = period(key, per.rolled_up_to, per.zone)
    if not isinstance(whole, Period):
        return None
    expected = tuple(part.key for part in whole.parts(per.grain))
    values = frozenset(value for event in events for _, value, _ in event_slices(per, event))
    return KeyCompleteness(expected, values.intersection(expected))


@dataclass(frozen=True, slots=True)
class KeyWrites:
    """How the periods of a key were written, in order of time.

    Attributes:
        late: those of which a commit came late.
        rewritten: those of which a partition was committed more than once. They count once.
    """

    late: tuple[str, ...]
    rewritten: tuple[str, ...]


def key_writes(per: Per, key: str, events: Iterable[Event], late: Collection[str]) -> KeyWrites:
    """What the commits of a dataset say of a key. `late`: ids of events that came late."""
    came_late, times = set[str](), Counter[tuple[str, str]]()
    for event in events:
        for cell, value, part in event_slices(per, event):
            if cell != key:
                continue
            if event.id in late:
                came_late.add(value)
            if isinstance(part.fact, PartitionsAdded):
                times.update((value, name) for name in {each.key for each in part.fact.partitions})
    rewritten = {value for (value, _), count in times.items() if count > 1}
    return KeyWrites(tuple(sorted(came_late)), tuple(sorted(rewritten)))
