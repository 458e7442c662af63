"""Completeness of a key: which parts of it are expected, which of them have come, and which came late or more than
once. The only place where this is worked out; pages, commands, the API and the arguments of runs show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final

from streamsched.domain.events.event import Event, PartitionsAdded
from streamsched.domain.limits import enumeration
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.keyed_event import event_slices
from streamsched.domain.triggers.keys.known_set import divided_part, values_text

#: Most spans that are named in a text, and most groups of values.
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class KeyCompleteness:
    """What a leaf has of a key.

    Attributes:
        expected: the parts of the key: periods in order of time, for each value of a known set.
        present: those of them that have come.
        column: of the known set; "": the parts are periods.
        key: the key itself, which is no period of it.
    """

    expected: tuple[str, ...]
    present: frozenset[str]
    column: str = ""
    key: str = ""

    @property
    def missing_parts(self) -> tuple[str, ...]:
        """The parts that have not come, in their order."""
        return tuple(each for each in self.expected if each not in self.present)

    @property
    def names(self) -> tuple[str, ...]:
        """The missing parts as people name them: `2026-03-01T05 of region us`."""
        return tuple(part_name(each, self.column, self.key) for each in self.missing_parts)

    def spans(self) -> Iterator[tuple[str, ...]]:
        """The first and the last of each run of missing periods that follow each other, and their value of a known set,
        where there is one.
        """
        for value, periods in self._by_value():
            for first, last in _spans(periods):
                yield (first, last, value) if self.column else (first, last)

    def __str__(self) -> str:
        """What is missing, such as `2026-03-01T05 and 2026-03-01T07 to 2026-03-01T23`, or of a known set
        `2026-03-01T05 of region eu and us; region apac`; "" when nothing is.
        """
        groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
        whole: list[str] = []
        for value, periods in self._by_value():
            spans = tuple(_spans(periods))
            if self.column and not any(has for _, has in periods):
                whole.append(value)
            elif spans:
                groups.setdefault(spans, []).append(value)
        texts = [f"{self.column} {values_text(whole)}"] if whole else []
        of = f" of {self.column} " if self.column else ""
        texts = [*(_text(spans) + of + values_text(values) * bool(of) for spans, values in groups.items()), *texts]
        more = len(texts) - _NAMED
        return "; ".join([*texts[:_NAMED], f"{more} more"] if more > 0 else texts)

    def _by_value(self) -> Iterator[tuple[str, list[tuple[str, bool]]]]:
        """Each value with its periods and whether each has come; "" without a known set."""
        divided = (divided_part(each) if self.column else (each, "") for each in self.expected)
        pairs = zip(divided, (each in self.present for each in self.expected), strict=True)
        for value, some in groupby(pairs, key=lambda pair: pair[0][1]):
            yield value, [(period_, has) for (period_, _), has in some]


def _spans(periods: Iterable[tuple[str, bool]]) -> Iterator[tuple[str, str]]:
    for has, run in groupby(periods, key=itemgetter(1)):
        if not has:
            first, *others = run
            yield first[0], (others[-1] if others else first)[0]


def _text(spans: Collection[tuple[str, str]]) -> str:
    names = [first if first == last else f"{first} to {last}" for first, last in spans]
    more = len(names) - _NAMED
    if more > 0:
        names = [*names[:_NAMED], f"{more} more spans"]
    return enumeration(names)


def part_name(part: str, column: str, key: str) -> str:
    """A part of a key as people name it: `2026-03-01T05`, `2026-03-01T05 of region us`, or `region us` where it is all
    of the key. `column`: of the known set; "" without one.
    """
    if not column:
        return part
    value, own = divided_part(part)
    return f"{column} {own}" if value == key else f"{value} of {column} {own}"


def completeness(
    per: Per, key: str, events: Iterable[Event], present: Collection[str] | None = None
) -> KeyCompleteness | None:
    """What has come for a key, of the events that a leaf has counted under it; `present`: the parts, where they are
    known. None: nothing says what belongs to the key, because it has no parts or names no period.
    """
    expected = per.parts(key)
    if expected is None:
        return None
    if present is None:
        present = {part for event in events for _, part, _ in event_slices(per, event)}
    return KeyCompleteness(expected, frozenset(present).intersection(expected), _column(per), key)


def _column(per: Per) -> str:
    return "" if per.each is None else per.each.column


@dataclass(frozen=True, slots=True)
class KeyWrites:
    """How the parts of a key were written, in order of time, as people name them.

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
        for cell, part, some in event_slices(per, event):
            if cell != key:
                continue
            if event.id in late:
                came_late.add(part)
            if isinstance(some.fact, PartitionsAdded):
                times.update((part, name) for name in {each.key for each in some.fact.partitions})
    rewritten = {part for (part, _), count in times.items() if count > 1}
    column = _column(per)
    return KeyWrites(*(tuple(part_name(each, column, key) for each in sorted(some)) for some in (came_late, rewritten)))
