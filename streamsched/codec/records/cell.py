"""Cells as JSON: the accumulation of a schedule, or of one key of it. Every event is written once.

{"slots": [[index of the slot, count, level or null, number of the first event, number of the first one included,
            [index in `events`, …], index in `events` of the rest of a cut first event, or null,
            which parts of the key have come, where older events are stored separately?], …],
 "events": [native event, …],
 "clocks"?: [[index of the timed node, since or null, last or null, holds], …], "opened_at"?: instant,
 "asked"?: instant, "number"?: n, "finished"?: [id of the job, time of the last correction that waits or null]}

Which parts have come is a number in hexadecimal: the bit 2^n stands for part n of `Per.parts`.

Older events may be stored separately, in pages of `PAGE` by their numbers, so that a long accumulation is not rewritten
with each event. A page is {"first": number, "events": [native event, …]}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol

from streamsched.codec.events import native
from streamsched.codec.events.event_table import EventTable, events_at, read_event_table
from streamsched.codec.json.scalar import boolean, instant, integer, loads, mapping, sequence, text
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import Event
from streamsched.domain.events.event_list import EventList, EventPage
from streamsched.domain.fold.accumulation import Accumulation, counted_parts
from streamsched.domain.fold.cell import Cell, Finished, TimedNodeState, cell_of
from streamsched.domain.fold.plan import LeafSlot, Plan

#: Events in a page. Events newer than the last whole page are written with the cell.
PAGE: Final = 32

#: How a page begins and ends; between them are its events.
_HEAD: Final = b'{"first":%d,"events":['
_TAIL: Final = b"]}"

#: Index of the parts that have come, in a slot.
_CAME: Final = 7


class StoredPage(Protocol):
    """A page in its row."""

    def read(self) -> bytes:
        """What `encode_page` wrote."""
        ...

    def decode(self) -> tuple[int, Sequence[Event]]:
        """The number of its first event, and its events."""
        ...


#: (index of the slot, number of the page) → the page.
Pages = Callable[[int, int], StoredPage]


def to_json(plan: Plan, cell: Cell, *, paged: bool = False, key: str = "") -> dict[str, Any]:
    """The cell of a key as values for `native.dumps`; `paged` omits the events of whole pages."""
    table = EventTable()
    slots: list[list[Any]] = []
    for index, slot in enumerate(plan.slots):
        has = cell.accumulations.get(slot.id)
        if has is None:
            continue
        events = has.events
        first = events.first_number
        here = max(first, events.next_number // PAGE * PAGE) if paged else first
        some = events.events_between(here, events.next_number)
        cut = None if events.rest_of_first is None else table.indexes([events.rest_of_first])[0]
        came = [] if here == first or cell.finished is not None else _came(slot, key, has)
        slots.append([index, has.count, has.level, first, here, table.indexes(some), cut, *came])
    found: dict[str, Any] = {"slots": slots, "events": table.to_json()}
    if cell.clocks:
        found["clocks"] = [[index, *clock] for index, clock in sorted(cell.clocks.items())]
    if cell.opened_at is not None:
        found["opened_at"] = cell.opened_at
    if cell.asked is not None:
        found["asked"] = cell.asked
    if cell.number:
        found["number"] = cell.number
    if cell.finished is not None:
        found["finished"] = list(cell.finished)
    return found


def from_json(value: object, path: str, plan: Plan, *, key: str = "", pages: Pages | None = None) -> Cell:
    """Decodes a cell. Without `pages` it has only the events written with it; counts are complete in any case. Pages
    are read when their events are needed, which raises `DecodeError` where one has not what the cell wants of it.

    Raises:
        DecodeError: it is invalid, or does not fit the plan.
    """
    found = mapping(value, path)
    table = read_event_table(found.get("events"), f"{path}.events")
    accumulations: dict[str, Accumulation] = {}
    for number, item in enumerate(sequence(found.get("slots"), f"{path}.slots")):
        where = f"{path}.slots[{number}]"
        index = integer(_part(item, 0, where), where)
        if index >= len(plan.slots):
            raise DecodeError(where, "is no leaf of the trigger")
        has, slot = _accumulation(item, index, table, where, pages), plan.slots[index]
        accumulations[slot.id] = (
            replace(has, present=_present_parts(item, slot, key, where)) if has.events.older else has
        )
    clocks: dict[int, TimedNodeState] = {}
    for number, item in enumerate(sequence(found.get("clocks", []), f"{path}.clocks")):
        where = f"{path}.clocks[{number}]"
        index = integer(_part(item, 0, where), where)
        if index >= len(plan.timed_nodes):
            raise DecodeError(where, "is no timed part of the trigger")
        clocks[index] = TimedNodeState(
            _instant(_part(item, 1, where), where), _instant(_part(item, 2, where), where), boolean(item[3], where)
        )
    return cell_of(
        plan,
        accumulations,
        clocks,
        opened_at=_instant(found.get("opened_at"), f"{path}.opened_at"),
        asked=_instant(found.get("asked"), f"{path}.asked"),
        number=integer(found.get("number", 0), f"{path}.number"),
        key=key,
        finished=_read_finished(found.get("finished"), f"{path}.finished"),
    )


def page_numbers(events: EventList) -> range:
    """The numbers of the pages with the events that `to_json` omits."""
    return range(events.first_number // PAGE, events.next_number // PAGE)


def encode_page(events: EventList, number: int) -> bytes:
    """One page as bytes."""
    first = max(events.first_number, number * PAGE)
    some = events.events_between(first, (number + 1) * PAGE)
    return b"".join((_HEAD % first, b",".join(map(native.encode_event, some)), _TAIL))


def pack_page(events: EventList, number: int, page: StoredPage) -> None:
    """Lets the events of one page leave memory; `page` reads what `encode_page` wrote."""
    events.pack(_page(page, number, events.first_number, "$"))


def decode_page(raw: bytes) -> tuple[int, Sequence[Event]]:
    """The number of a page's first event, and its events.

    Raises:
        DecodeError: the bytes are not a page.
    """
    found = mapping(loads(raw), "$")
    return integer(found.get("first"), "$.first"), read_event_table(found.get("events"), "$.events")


def _read_finished(value: object, path: str) -> Finished | None:
    if value is None:
        return None
    return Finished(text(_part(value, 0, path), path), _instant(_part(value, 1, path), path))


def _came(slot: LeafSlot, key: str, has: Accumulation) -> list[str]:
    """Which parts of the key have come; empty where it has none."""
    parts = None if slot.per is None else slot.per.parts(key)
    if not parts:
        return []
    came = counted_parts(has, slot)
    return [f"{int(''.join('1' if each in came else '0' for each in reversed(parts)), 2):x}"]


def _present_parts(item: Any, slot: LeafSlot, key: str, path: str) -> frozenset[str] | None:
    """The inverse of `_came`; None where it was not written."""
    if len(item) <= _CAME or slot.per is None:
        return None
    try:
        bits = f"{int(text(item[_CAME], path), 16):b}"
    except ValueError as exc:
        raise DecodeError(path, "has parts that are no number in hexadecimal") from exc
    return frozenset(part for part, bit in zip(slot.per.parts(key) or (), reversed(bits), strict=False) if bit == "1")


def _accumulation(item: Any, index: int, table: list[Event], path: str, pages: Pages | None) -> Accumulation:
    level, cut = _part(item, 2, path), _part(item, 6, path)
    first, here = integer(_part(item, 3, path), path), integer(_part(item, 4, path), path)
    events, older = events_at(_part(item, 5, path), table, path), 0
    if pages is None:
        first, older = here, here - first
    listed = EventList(events, first=here, older=older)
    if first < here and pages is not None:
        listed = EventList.from_pages(_event_pages(pages, index, first, here, path), listed)
    if cut is not None and not older:
        listed = listed.drop_first(0, events_at([cut], table, path)[0])
    return Accumulation(integer(_part(item, 1, path), path), None if level is None else integer(level, path), listed)


def _event_pages(pages: Pages, index: int, first: int, here: int, path: str) -> Iterator[EventPage]:
    """The pages of the events from number `first` to before `here`."""
    for number in range(first // PAGE, here // PAGE):
        yield _page(pages(index, number), number, first, path)


def _page(page: StoredPage, number: int, first: int, path: str) -> EventPage:
    """Of a list whose first event has the number `first`."""
    start, stop = max(first, number * PAGE), (number + 1) * PAGE
    return EventPage(start, stop, partial(_read_page, page, start, stop, path), partial(_encoded_events, page, start))


def _read_page(page: StoredPage, start: int, stop: int, path: str) -> Sequence[Event]:
    first, events = page.decode()
    some = events[max(0, start - first) :] if start > first else events
    if len(some) != stop - start:
        raise DecodeError(path, f"wants events {start} to {stop - 1}, but their page has {len(some)} of them")
    return some


def _encoded_events(page: StoredPage, start: int) -> bytes | None:
    """The JSON of a page's events with commas between, where it begins with number `start`; otherwise None."""
    raw, head = page.read(), _HEAD % start
    return raw[len(head) : -len(_TAIL)] if raw.startswith(head) and raw.endswith(_TAIL) else None


def _part(item: Any, index: int, path: str) -> Any:
    parts = sequence(item, path)
    if index >= len(parts):
        raise DecodeError(path, "is too short")
    return parts[index]


def _instant(value: object, path: str) -> datetime | None:
    return None if value is None else instant(value, path)
