"""The triggers table of a shard as trigger states, and what changed of them as rows.

| key                                       | value                                                             |
|-------------------------------------------|-------------------------------------------------------------------|
| `schedule:<ref>`                          | definition, sequence, and the one cell of a plain schedule        |
| `schedule:<ref>␟<key>`                    | the cell of one open key of a schedule that correlates            |
| `schedule:<ref>␟<key>␟<slot>.<page>`      | a page of events of one leaf (`codec.cell`); `<key>` may be empty |
| `schedule:<ref>␟␟error`, `…␟␟parked.<n>`  | of one in error: why, and its signals that wait (`stream.halts`)  |

A turn writes what it changed: the row of each cell, with its newest events, and each page once, when it is full. So the
price of an event does not depend on how many have come before it, nor on how many keys are open.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Final

from streamsched.codec import cell as cell_codec
from streamsched.codec import state as state_codec
from streamsched.codec.state import SEPARATOR
from streamsched.domain.arrivals import NOBODY, Arrivals
from streamsched.domain.cell import EMPTY, Cell
from streamsched.domain.errors import DecodeError
from streamsched.domain.event import Event
from streamsched.domain.fold import Folded, TriggerState
from streamsched.domain.plan import Plan
from streamsched.stream.edition import Edition
from streamsched.stream.halts import is_halt

_NO_PAGES: Final = range(0)


@dataclass(frozen=True, slots=True)
class _Stored:
    """A cell as the table has it, and by the place of the leaf which pages there are."""

    plan: Plan | None
    cell: Cell
    pages: Mapping[int, range]


_NEVER: Final = _Stored(None, EMPTY, {})


class Accumulated:
    """The table's bytes are the truth; the states are derived from them."""

    def __init__(self, triggers: MutableMapping[bytes, bytes], edition: Edition | None = None) -> None:
        """`edition`: in which version rows are written; the newest when not given."""
        self._table = triggers
        self._edition = edition or Edition()
        self._states: dict[bytes, TriggerState | None] = {}
        self._cells: dict[bytes, dict[str, Cell]] = {}
        #: Schedule key → rows of its open keys, of schedules that nobody has asked for since the shard started.
        self._unread: dict[bytes, list[bytes]] | None = None
        self._stored: dict[bytes, _Stored] = {}
        self._changed: dict[bytes, set[str]] = {}

    def state(self, key: bytes) -> TriggerState | None:
        """The state of a schedule, by its record key."""
        known = self._states.get(key)
        if known is None and key not in self._states:
            raw = self._table.get(key)
            pages: dict[int, range] = {}
            state = None if raw is None else state_codec.decode(raw, pages=self._pages_of(_row(key, ""), pages))
            known = self._states[key] = state
            if state is not None:
                self._stored[_row(key, "")] = _Stored(state.plan, state.cell, pages)
        return known

    def cells(self, key: bytes) -> Mapping[str, Cell]:
        """The cells of the open keys of a schedule, those opened first before others."""
        known = self._cells.get(key)
        if known is None:
            known = self._cells[key] = self._read_cells(key)
        return known

    def fold(self, key: bytes, folded: Folded) -> None:
        """Takes over what a signal did; nothing is written before `store`."""
        before = self._states.get(key)
        if folded.state is not before:
            self._states[key] = folded.state
            if key in self._changed:
                self._changed[key].add("")
            else:
                self._changed[key] = {""}
        if folded.cells:
            cells = dict(self.cells(key)) if key not in self._cells else self._cells[key]
            for name, cell in folded.cells.items():
                if cell is None or (name in cells and cells[name].number != cell.number):
                    cells.pop(name, None)  # one that opens anew is the newest
                if cell is not None:
                    cells[name] = cell
            self._cells[key] = cells
            self._changed.setdefault(key, set()).update(folded.cells)

    def forget(self, key: bytes) -> None:
        """Removes a schedule whatever its rows say; what says that it is in error stays."""
        for row in [row for row in self._table if row == key or row.startswith(key + SEPARATOR)]:
            if not is_halt(row):
                del self._table[row]
                self._stored.pop(row, None)
        self._states[key], self._cells[key] = None, {}
        self._rows().pop(key, None)
        self._changed.pop(key, None)

    def store(self) -> None:
        """Writes what has changed since, each row once, however often it did."""
        version = self._edition.version
        for key in sorted(self._changed):
            state = self._states[key]
            for name in sorted(self._changed[key]):
                row = _row(key, name)
                cell = None if state is None else self._cells[key].get(name) if name else state.cell
                plan = None if state is None or cell is None else state.plan
                if state is None or cell is None:
                    self._write(row if name else key, None)
                elif name:
                    self._write(row, state_codec.encode_key(state.definition, cell, version=version))
                else:
                    self._write(key, state_codec.encode(state, paged=True, version=version))
                self._store_pages(row, plan, cell or EMPTY)
            if state is None:
                del self._states[key]
                self._cells.pop(key, None)
        self._changed.clear()

    def _read_cells(self, key: bytes) -> dict[str, Cell]:
        state = self.state(key)
        found: dict[str, Cell] = {}
        for row in self._rows().get(key, ()):
            if state is None or (raw := self._table.get(row)) is None:
                continue
            name = row[len(key) + 1 :].decode()
            pages: dict[int, range] = {}
            cell = state_codec.decode_key(raw, state.definition, name, pages=self._pages_of(row, pages))
            if cell is not None:
                found[name] = cell
                self._stored[row] = _Stored(state.plan, cell, pages)
        self._rows().pop(key, None)  # all are read; had one raised, they would be asked for again
        return dict(sorted(found.items(), key=lambda item: (item[1].number, str(item[1].opened_at), item[0])))

    def _rows(self) -> dict[bytes, list[bytes]]:
        if self._unread is None:
            self._unread = {}
            for row in self._table:
                schedule, separator, rest = row.partition(SEPARATOR)
                if separator and SEPARATOR not in rest:
                    self._unread.setdefault(schedule, []).append(row)
        return self._unread

    def _pages_of(self, row: bytes, read: dict[int, range]) -> cell_codec.Pages:
        """Reads the pages of a cell, and notes in `read` which there are."""

        def page(slot: int, number: int) -> tuple[int, Sequence[Event]]:
            raw = self._table.get(_page_row(row, slot, number))
            if raw is None:
                raise DecodeError("$", f"wants page {number} of leaf {slot}, which is not there")
            read[slot] = range(read[slot].start if slot in read else number, number + 1)
            return cell_codec.decode_page(raw)

        return page

    def _store_pages(self, row: bytes, plan: Plan | None, cell: Cell) -> None:
        """Writes the pages that are full now and removes those that are used up; without a plan, all of them."""
        before = self._stored.pop(row, _NEVER)
        same = before.plan is plan
        pages: dict[int, range] = {}
        for place, slot in enumerate(() if plan is None else plan.slots):
            has = _events(cell, slot.id)
            wanted = cell_codec.page_numbers(has)
            kept = before.pages.get(place, _NO_PAGES) if same else _NO_PAGES
            if not has.continues(_events(before.cell, slot.id)):
                kept = _NO_PAGES
            for number in range(max(wanted.start, kept.stop), wanted.stop):
                self._table[_page_row(row, place, number)] = cell_codec.encode_page(has, number)
            if wanted:
                pages[place] = wanted
        for place, old in before.pages.items():
            now = pages.get(place, _NO_PAGES)
            for number in old if not now else range(old.start, min(now.start, old.stop)):
                self._write(_page_row(row, place, number), None)
            for number in range(max(now.stop, old.start), old.stop) if now else ():
                self._write(_page_row(row, place, number), None)
        if plan is not None:
            self._stored[row] = _Stored(plan, cell, pages)

    def _write(self, row: bytes, value: bytes | None) -> None:
        if value is not None:
            self._table[row] = value
        elif row in self._table:
            del self._table[row]


def _events(cell: Cell, slot: str) -> Arrivals:
    has = cell.accumulations.get(slot)
    return NOBODY if has is None else has.events


def _row(key: bytes, name: str) -> bytes:
    return key + SEPARATOR + name.encode()


def _page_row(row: bytes, slot: int, number: int) -> bytes:
    return b"%s%s%d.%d" % (row, SEPARATOR, slot, number)
