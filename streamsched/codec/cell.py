"""A cell as JSON: what a schedule, or one key of it, has accumulated. Every event is written once.

{"slots": [[place of the slot, count, level or null, number of the first event, number of the first one here,
            [place in `events`, …], place in `events` of what is left of the first one, or null], …],
 "events": [native event, …],
 "clocks"?: [[place of the watch, since or null, last or null, holds], …], "opened_at"?: instant, "asked"?: instant,
 "number"?: n}

Old events may be kept elsewhere, in pages of `PAGE` by their numbers, so that a long accumulation is not written anew
for each event that joins it. A page is {"first": number, "events": [native event, …]}.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import orjson

from streamsched.codec import native
from streamsched.codec.roll import Roll, called, read_roll
from streamsched.codec.scalar import boolean, instant, integer, loads, mapping, sequence
from streamsched.domain.accumulation import Accumulation
from streamsched.domain.arrivals import Arrivals
from streamsched.domain.cell import Cell, Clock, cell_of
from streamsched.domain.errors import DecodeError
from streamsched.domain.event import Event
from streamsched.domain.plan import Plan

#: Events in a page. What is newer than the last whole page is written with the cell.
PAGE: Final = 32

#: The events of a page: (place of the slot, number of the page) → number of its first event, and they.
Pages = Callable[[int, int], tuple[int, Sequence[Event]]]


def to_json(plan: Plan, cell: Cell, *, paged: bool = False) -> dict[str, Any]:
    """The cell as values `native.dumps` writes; `paged` leaves out what `pages` says is kept elsewhere."""
    roll = Roll()
    slots: list[list[Any]] = []
    for place, slot in enumerate(plan.slots):
        has = cell.accumulations.get(slot.id)
        if has is None:
            continue
        events = has.events
        first = events.first
        here = max(first, events.after // PAGE * PAGE) if paged else first
        some = events.numbered(here, events.after)
        cut = None if events.cut is None else roll.places([events.cut])[0]
        slots.append([place, has.count, has.level, first, here, roll.places(some), cut])
    found: dict[str, Any] = {"slots": slots, "events": roll.to_json()}
    if cell.clocks:
        found["clocks"] = [[place, *clock] for place, clock in sorted(cell.clocks.items())]
    if cell.opened_at is not None:
        found["opened_at"] = cell.opened_at
    if cell.asked is not None:
        found["asked"] = cell.asked
    if cell.number:
        found["number"] = cell.number
    return found


def from_json(value: object, path: str, plan: Plan, *, key: str = "", pages: Pages | None = None) -> Cell:
    """The cell that was written. Without `pages` it has the newest events alone; counts are right in any case.

    Raises:
        DecodeError: it is none, or none of this plan.
    """
    found = mapping(value, path)
    roll = read_roll(found.get("events"), f"{path}.events")
    accumulations: dict[str, Accumulation] = {}
    for number, item in enumerate(sequence(found.get("slots"), f"{path}.slots")):
        where = f"{path}.slots[{number}]"
        place = integer(_part(item, 0, where), where)
        if place >= len(plan.slots):
            raise DecodeError(where, "is no leaf of the trigger")
        accumulations[plan.slots[place].id] = _accumulation(item, place, roll, where, pages)
    clocks: dict[int, Clock] = {}
    for number, item in enumerate(sequence(found.get("clocks", []), f"{path}.clocks")):
        where = f"{path}.clocks[{number}]"
        place = integer(_part(item, 0, where), where)
        if place >= len(plan.watches):
            raise DecodeError(where, "is no part of the trigger that minds the clock")
        clocks[place] = Clock(
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
    )


def page_numbers(events: Arrivals) -> range:
    """The pages that hold what `to_json` leaves out."""
    return range(events.first // PAGE, events.after // PAGE)


def encode_page(events: Arrivals, number: int) -> bytes:
    """One page as bytes."""
    first = max(events.first, number * PAGE)
    some = events.numbered(first, (number + 1) * PAGE)
    page = {"first": first, "events": [orjson.Fragment(native.encoded(event)) for event in some]}
    return native.trimmed(orjson.dumps(page))


def decode_page(raw: bytes) -> tuple[int, Sequence[Event]]:
    """The number of a page's first event, and its events.

    Raises:
        DecodeError: these bytes are no page.
    """
    found = mapping(loads(raw), "$")
    return integer(found.get("first"), "$.first"), read_roll(found.get("events"), "$.events")


def _accumulation(item: Any, place: int, roll: list[Event], path: str, pages: Pages | None) -> Accumulation:
    level, cut = _part(item, 2, path), _part(item, 6, path)
    first, here = integer(_part(item, 3, path), path), integer(_part(item, 4, path), path)
    events = list(called(_part(item, 5, path), roll, path))
    older = 0
    if pages is None:
        first, older = here, here - first
    elif first < here:
        events = [*_paged(pages, place, first, here, path), *events]
    arrivals = Arrivals(events, first=first, older=older)
    if cut is not None and not older:
        arrivals = arrivals.without(0, called([cut], roll, path)[0])
    return Accumulation(integer(_part(item, 1, path), path), None if level is None else integer(level, path), arrivals)


def _paged(pages: Pages, place: int, first: int, here: int, path: str) -> list[Event]:
    found: list[Event] = []
    for number in range(first // PAGE, here // PAGE):
        start, some = pages(place, number)
        found += some[max(0, first - start) :]
    if len(found) != here - first:
        raise DecodeError(path, f"wants events {first} to {here - 1}, but its pages have {len(found)} of them")
    return found


def _part(item: Any, place: int, path: str) -> Any:
    parts = sequence(item, path)
    if place >= len(parts):
        raise DecodeError(path, "is too short")
    return parts[place]


def _instant(value: object, path: str) -> datetime | None:
    return None if value is None else instant(value, path)
