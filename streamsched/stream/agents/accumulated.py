"""The trigger states of a shard, read from and written to rows of its `triggers` table.

| key                                       | value                                                             |
|-------------------------------------------|-------------------------------------------------------------------|
| `schedule:<ref>`                          | definition, sequence, and the cell of a schedule without a key    |
| `schedule:<ref>␟<key>`                    | the cell of one open key of a schedule that correlates            |
| `schedule:<ref>␟<key>␟<slot>.<page>`      | a page of events of one leaf (`codec.records.cell`); key may be empty |
| `schedule:<ref>␟␟error`, `…␟␟parked.<n>`  | schedules in error and their parked signals (`stream.agents.halts`) |
| `schedule:<ref>␟␟unordered.<n>`           | signals that wait for their order (`stream.agents.unordered_signals`) |

A turn writes only what it changed: the row of each changed cell, with its newest events, and each page once, when it is
full. So the cost of an event does not depend on the number of earlier events or of open keys.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Final

from streamsched.codec.records import cell as cell_codec
from streamsched.codec.records import state as state_codec
from streamsched.codec.records.state import SEPARATOR
from streamsched.domain.errors import ConfigurationError, DecodeError
from streamsched.domain.events.event import Event
from streamsched.domain.events.event_list import EMPTY_LIST, EventList
from streamsched.domain.fold.cell import EMPTY, Cell
from streamsched.domain.fold.fold import Folded, TriggerState
from streamsched.domain.fold.plan import Plan
from streamsched.ports.broker import OLDER_LOG
from streamsched.stream.agents.halts import is_halt
from streamsched.stream.agents.unordered_signals import is_unordered
from streamsched.stream.state_format import StateFormat

_NO_PAGES: Final = range(0)


@dataclass(frozen=True, slots=True)
class _Stored:
    """A cell as it is in the table, and the range of its pages by the index of the leaf."""

    plan: Plan | None
    cell: Cell
    pages: Mapping[int, range]


_NOT_STORED: Final = _Stored(None, EMPTY, {})


class TriggerStates:
    """Caches decoded states of the table's rows; rows are read lazily and written by `store`."""

    def __init__(self, triggers: MutableMapping[bytes, bytes], state_format: StateFormat | None = None) -> None:
        """`state_format`: the version in which rows are written; by default the newest."""
        self._table = triggers
        self._state_format = state_format or StateFormat()
        self._states: dict[bytes, TriggerState | None] = {}
        self._cells: dict[bytes, dict[str, Cell]] = {}
        #: Schedule key → rows of its open keys, for schedules whose cells have not been read yet; None: not indexed.
        self._unread: dict[bytes, list[bytes]] | None = None
        self._stored: dict[bytes, _Stored] = {}
        self._changed: dict[bytes, set[str]] = {}

    def check_release(self) -> None:
        """Looks at all rows of the restored table.

        Raises:
            ConfigurationError: one was written before release 0.1.0.
        """
        if any(map(state_codec.is_of_before, self._table.values())):
            raise ConfigurationError(OLDER_LOG)

    def state(self, key: bytes) -> TriggerState | None:
        """The state of a schedule by its record key; None when there is none."""
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
        """The cells of the open keys of a schedule, in order of opening."""
        known = self._cells.get(key)
        if known is None:
            known = self._cells[key] = self._read_cells(key)
        return known

    def fold(self, key: bytes, folded: Folded) -> None:
        """Applies the result of a fold in memory; `store` writes it."""
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
                    cells.pop(name, None)  # a key that is opened again moves to the end
                if cell is not None:
                    cells[name] = cell
            self._cells[key] = cells
            self._changed.setdefault(key, set()).update(folded.cells)

    def forget(self, key: bytes) -> None:
        """Removes all rows of a schedule without decoding them, except those of its halt and of signals that wait."""
        for row in [row for row in self._table if row == key or row.startswith(key + SEPARATOR)]:
            if not is_halt(row) and not is_unordered(row):
                del self._table[row]
                self._stored.pop(row, None)
        self._states[key], self._cells[key] = None, {}
        self._rows().pop(key, None)
        self._changed.pop(key, None)

    def store(self) -> None:
        """Writes every row that changed since the last call, once."""
        for _ in self.store_in_steps(math.inf):
            pass

    def store_in_steps(self, step_s: float) -> Iterator[None]:
        """As `store`, in steps of about `step_s` seconds. Do not call `fold` before the iterator is exhausted."""
        version, until = self._state_format.version, time.monotonic() + step_s
        for key in sorted(self._changed):
            state = self._states[key]
            for name in sorted(self._changed[key]):
                if time.monotonic() > until:
                    yield
                    until = time.monotonic() + step_s
                row = _row(key, name)
                cell = None if state is None else self._cells[key].get(name) if name else state.cell
                plan = None if state is None or cell is None else state.plan
                if state is None or cell is None:
                    self._write(row if name else key, None)
                elif name:
                    self._write(row, state_codec.encode_key(state.definition, cell, name, version=version))
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
        self._rows().pop(key, None)  # only now: when a row cannot be decoded, the next call reads all of them again
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
        """A function that reads the pages of a cell; it records in `read` which exist."""

        def page(slot: int, number: int) -> tuple[int, Sequence[Event]]:
            raw = self._table.get(_page_row(row, slot, number))
            if raw is None:
                raise DecodeError("$", f"page {number} of leaf {slot} is missing")
            read[slot] = range(read[slot].start if slot in read else number, number + 1)
            return cell_codec.decode_page(raw)

        return page

    def _store_pages(self, row: bytes, plan: Plan | None, cell: Cell) -> None:
        """Writes the pages that have become full and removes those no longer used. With `plan` None removes all."""
        before = self._stored.pop(row, _NOT_STORED)
        same = before.plan is plan
        pages: dict[int, range] = {}
        for index, slot in enumerate(() if plan is None else plan.slots):
            events = _events(cell, slot.id)
            wanted = cell_codec.page_numbers(events)
            kept = before.pages.get(index, _NO_PAGES) if same else _NO_PAGES
            if not events.continues(_events(before.cell, slot.id)):
                kept = _NO_PAGES
            for number in range(max(wanted.start, kept.stop), wanted.stop):
                self._table[_page_row(row, index, number)] = cell_codec.encode_page(events, number)
            if wanted:
                pages[index] = wanted
        for index, old in before.pages.items():
            now = pages.get(index, _NO_PAGES)
            for number in old if not now else range(old.start, min(now.start, old.stop)):
                self._write(_page_row(row, index, number), None)
            for number in range(max(now.stop, old.start), old.stop) if now else ():
                self._write(_page_row(row, index, number), None)
        if plan is not None:
            self._stored[row] = _Stored(plan, cell, pages)

    def _write(self, row: bytes, value: bytes | None) -> None:
        if value is not None:
            self._table[row] = value
        elif row in self._table:
            del self._table[row]


def _events(cell: Cell, slot: str) -> EventList:
    accumulation = cell.accumulations.get(slot)
    return EMPTY_LIST if accumulation is None else accumulation.events


def _row(key: bytes, name: str) -> bytes:
    return key + SEPARATOR + name.encode()


def _page_row(row: bytes, slot: int, number: int) -> bytes:
    return b"%s%s%d.%d" % (row, SEPARATOR, slot, number)
