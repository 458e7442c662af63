"""Many rows as commits that any log takes: neither so many nor so large that a transaction has no room for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from streamsched.ports.broker import Outgoing


@dataclass(frozen=True, slots=True)
class Room:
    """What one commit takes; a record that is larger has one of its own."""

    records: int
    bytes: int

    def takes(self, rows: Sequence[Outgoing]) -> bool:
        """Whether these fit together."""
        return self.has(len(rows), _size(rows))

    def has(self, records: int, size: int) -> bool:
        """Whether so many fit, of so many bytes."""
        return records <= self.records and size <= self.bytes


#: Half of what Kafka takes in the shortest transaction that can be asked for.
ROOM: Final = Room(1000, 8 << 20)


def portions(groups: Iterable[Sequence[Outgoing]], room: Room = ROOM) -> Iterator[list[Outgoing]]:
    """The rows in their order, a commit each time. Those of one group stay together where a commit takes them."""
    portion: list[Outgoing] = []
    size = 0
    for group in groups:
        together = room.takes(group)
        for rows in (group,) if together else ([row] for row in group):
            more = _size(rows)
            if portion and not room.has(len(portion) + len(rows), size + more):
                yield portion
                portion, size = [], 0
            portion.extend(rows)
            size += more
    if portion:
        yield portion


def _size(rows: Sequence[Outgoing]) -> int:
    return sum(len(row.key or b"") + len(row.value or b"") for row in rows)
