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

Neither does memory: a page that is written leaves memory, and is read from its row when a job needs its events. A cell
that nothing has changed for `IDLE_S` leaves it too, and a definition that nothing has happened to yet.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice, takewhile
from typing import Final, NamedTuple

from streamsched.codec.records import cell as cell_codec
from streamsched.codec.records import state as state_codec
from streamsched.codec.records.state import SEPARATOR
from streamsched.domain.errors import ConfigurationError, DecodeError, InvalidError
from streamsched.domain.events.event import Event
from streamsched.domain.events.event_list import EMPTY_LIST, EventList
from streamsched.domain.fold.accumulation import index_partitions
from streamsched.domain.fold.cell import EMPTY, Cell
from streamsched.domain.fold.fold import Folded, TriggerState
from streamsched.domain.fold.plan import LeafSlot, Plan
from streamsched.ports.broker import OLDER_LOG
from streamsched.stream.agents.halts import is_halt
from streamsched.stream.agents.open_cells import OpenCells
from streamsched.stream.agents.unordered_signals import is_unordered
from streamsched.stream.state_format import StateFormat

#: Seconds for which a decoded row stays in memory after it was first read or last changed: of few rows, and of many.
IDLE_S: Final = 60.0
_IDLE_OF_MANY_S: Final = 5.0
_MANY: Final = 20_000

#: Reading so many events again takes 0.15 s, in which a shard does nothing else.
_LARGE: Final = 10_000

#: Most decoded rows that leave memory at the end of one turn.
_LEAVING: Final = 1_000

#: Decoded pages in memory, and the most bytes of one: jobs that take some events each read the same page many times.
_PAGES: Final = 64
_LARGEST_PAGE: Final = 32 << 10

_NO_PAGES: Final = range(0)


@dataclass(frozen=True, slots=True)
class _Stored:
    """A cell as it is in the table, with the generation of its definition.

    Attributes:
        pages: the range of its pages by the index of the leaf.
        since: since when it has not changed (monotonic).
    """

    generation: int
    cell: Cell
    pages: Mapping[int, range]
    since: float


_NOT_STORED: Final = _Stored(0, EMPTY, {}, 0.0)


class _PageRow(NamedTuple):
    """A page that is read from its row."""

    table: MutableMapping[bytes, bytes]
    row: bytes
    decoder: Callable[[bytes], tuple[int, Sequence[Event]]]

    def read(self) -> bytes:
        """Its bytes."""
        raw = self.table.get(self.row)
        if raw is None:
            raise DecodeError("$", f"page {self.row.rpartition(SEPARATOR)[2].decode()} is missing")
        return raw

    def decode(self) -> tuple[int, Sequence[Event]]:
        """The number of its first event, and its events."""
        return self.decoder(self.read())


class TriggerStates:
    """Caches decoded states of the table's rows; rows are read lazily and written by `store`."""

    def __init__(
        self,
        triggers: MutableMapping[bytes, bytes],
        state_format: StateFormat | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`state_format`: the version in which rows are written; by default the newest."""
        self._table = triggers
        self._state_format = state_format or StateFormat()
        self._now = now
        #: By schedule key; None: dropped in this turn.
        self._states: dict[bytes, TriggerState | None] = {}
        self._cells: dict[bytes, OpenCells] = {}
        #: Schedule key → rows of its open keys, for schedules whose cells have not been read yet; None: not indexed.
        self._unread: dict[bytes, list[bytes]] | None = None
        #: By row: of the decoded ones, that first which has not changed for longest.
        self._stored: dict[bytes, _Stored] = {}
        self._changed: dict[bytes, set[str]] = {}
        self._known_page = lru_cache(_PAGES)(cell_codec.decode_page)

    def check_release(self) -> None:
        """Looks at all rows of the restored table but pages.

        Raises:
            ConfigurationError: one was written before release 0.1.0.
        """
        if any(state_codec.is_of_before(self._table[row]) for row in self._table if not is_page_row(row)):
            raise ConfigurationError(OLDER_LOG)

    def large_cells(self) -> Sequence[tuple[bytes, str]]:
        """The schedule key and the key of each cell of the restored table that has many events."""
        pages = Counter(row.rpartition(SEPARATOR)[0] for row in self._table if is_page_row(row))
        large = (row.partition(SEPARATOR) for row, count in pages.items() if count * cell_codec.PAGE >= _LARGE)
        return [(key, name.decode()) for key, _, name in large]

    def read_cell(self, key: bytes, name: str) -> None:
        """Reads a cell and indexes its partitions. It may run in a thread, since it can take long: 15 s for a million
        events. One that cannot be read is left for the next signal of its schedule.
        """
        with suppress(InvalidError):
            if not name:
                self.state(key)
            else:
                self.cells(key).get(name)

    def state(self, key: bytes) -> TriggerState | None:
        """The state of a schedule by its record key; None when there is none."""
        known = self._states.get(key)
        if known is None and key not in self._states:
            raw = self._table.get(key)
            if raw is None:
                return None
            pages: dict[int, range] = {}
            known = state_codec.decode(raw, pages=self._pages_of(_row(key, ""), pages))
            if pages:
                known = known._replace(cell=_index_partitions(known.plan, known.cell))
            self._states[key] = known
            self._stored[_row(key, "")] = _Stored(known.generation, known.cell, pages, self._now())
        return known

    def cells(self, key: bytes) -> Mapping[str, Cell]:
        """The cells of the open keys of a schedule, in order of opening. Each is decoded when it is asked for."""
        known = self._cells.get(key)
        if known is None:
            known = self._cells[key] = self._find_cells(key)
        return known

    def fold(self, key: bytes, folded: Folded) -> None:
        """Applies the result of a fold in memory; `store` writes it."""
        before = self._states.get(key)
        if folded.cells:
            self.cells(key)
            self._cells[key].update(folded.cells)  # before the state: what is read is of the definition before
            self._changed.setdefault(key, set()).update(folded.cells)
        if folded.state is not before:
            self._states[key] = folded.state
            if key in self._changed:
                self._changed[key].add("")
            else:
                self._changed[key] = {""}

    def forget(self, key: bytes) -> None:
        """Removes all rows of a schedule without decoding them, except those of its halt and of signals that wait."""
        for row in [row for row in self._table if row == key or row.startswith(key + SEPARATOR)]:
            if not is_halt(row) and not is_unordered(row):
                del self._table[row]
                self._stored.pop(row, None)
        self._stored.pop(_row(key, ""), None)
        self._states.pop(key, None)
        self._cells.pop(key, None)
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
            cells = {name: self._cell(key, state, name) for name in sorted(self._changed[key])}
            for name, cell in sorted(cells.items(), key=lambda item: item[1] is None):  # a renamed key reads its pages
                if time.monotonic() > until:
                    yield
                    until = time.monotonic() + step_s
                row = _row(key, name)
                if state is None or cell is None:
                    self._write(row if name else key, None)
                elif name:
                    self._write(row, state_codec.encode_key(state.definition, cell, name, version=version))
                else:
                    self._write(key, state_codec.encode(state, paged=True, version=version))
                is_new = row not in self._stored
                slots = () if state is None or cell is None else state.plan.slots
                self._store_pages(row, slots, cell or EMPTY, 0 if state is None else state.generation)
                if is_new and row in self._stored and cell is not None and not cell.accumulations:
                    self._let_go(row)
            if state is None:
                del self._states[key]
                self._cells.pop(key, None)
        self._changed.clear()
        self._let_go_of_idle()

    def _let_go_of_idle(self) -> None:
        """Removes decoded cells from memory that have not changed for long. Those with pages stay: only their newest
        events are in memory, and to derive anew what else belongs to them costs as much as all their events.
        """
        now = self._now()
        late = now - (_IDLE_OF_MANY_S if len(self._stored) > _MANY else IDLE_S)
        oldest = islice(self._stored.items(), _LEAVING)
        for row, stored in list(takewhile(lambda item: item[1].since < late, oldest)):
            if stored.pages:
                del self._stored[row]
                self._stored[row] = replace(stored, since=now)
            else:
                self._let_go(row)

    def _let_go(self, row: bytes) -> None:
        """Removes a cell from memory; its row is as it is."""
        del self._stored[row]
        key, _, name = row.partition(SEPARATOR)
        if not name:
            self._states.pop(key, None)
        elif key in self._cells:
            self._cells[key].let_go(name.decode())

    def _cell(self, key: bytes, state: TriggerState | None, name: str) -> Cell | None:
        """The cell of a key as it is now, or that of a schedule without keys; None when it is not open."""
        if state is None:
            return None
        return self._cells[key].get(name) if name else state.cell

    def _find_cells(self, key: bytes) -> OpenCells:
        state = self.state(key)
        opened: list[tuple[int, str, str]] = []
        for row in self._rows().get(key, ()):
            if state is not None and (raw := self._table.get(row)) is not None:
                header = state_codec.peek_key(raw)
                if header.generation == state.generation:
                    opened.append((header.number, str(header.opened_at), row[len(key) + 1 :].decode()))
        self._rows().pop(key, None)  # only now: when a row cannot be decoded, the next call reads all of them again
        return OpenCells((name for _, _, name in sorted(opened)), partial(self._read_cell, key))

    def _read_cell(self, key: bytes, name: str) -> Cell:
        state, row = self.state(key), _row(key, name)
        raw = self._table.get(row)
        pages: dict[int, range] = {}
        cell = None
        if state is not None and raw is not None:
            cell = state_codec.decode_key(raw, state.definition, name, pages=self._pages_of(row, pages))
        if state is None or cell is None:
            raise DecodeError("$", f"the row of open key {name!r} is missing")
        if pages:
            cell = _index_partitions(state.plan, cell)
        self._stored[row] = _Stored(state.generation, cell, pages, self._now())
        return cell

    def _rows(self) -> dict[bytes, list[bytes]]:
        if self._unread is None:
            self._unread = {}
            for row in self._table:
                schedule, separator, rest = row.partition(SEPARATOR)
                if separator and SEPARATOR not in rest:
                    self._unread.setdefault(schedule, []).append(row)
        return self._unread

    def _pages_of(self, row: bytes, found: dict[int, range]) -> cell_codec.Pages:
        """A function that finds the pages of a cell; it records in `found` which exist."""

        def page(slot: int, number: int) -> _PageRow:
            name = _page_row(row, slot, number)
            if name not in self._table:
                raise DecodeError("$", f"page {number} of leaf {slot} is missing")
            found[slot] = range(found[slot].start if slot in found else number, number + 1)
            return _PageRow(self._table, name, self._decode_page)

        return page

    def _decode_page(self, raw: bytes) -> tuple[int, Sequence[Event]]:
        return (self._known_page if len(raw) <= _LARGEST_PAGE else cell_codec.decode_page)(raw)

    def _store_pages(self, row: bytes, slots: Sequence[LeafSlot], cell: Cell, generation: int) -> None:
        """Writes the pages that have become full and removes those no longer used: all of them without `slots`."""
        before = self._stored.pop(row, _NOT_STORED)
        pages: dict[int, range] = {}
        written: list[tuple[bytes, bytes]] = []
        packed: list[Callable[[], None]] = []
        for index, slot in enumerate(slots):
            events = _events(cell, slot.id)
            wanted = cell_codec.page_numbers(events)
            kept = before.pages.get(index, _NO_PAGES) if before.generation == generation else _NO_PAGES
            if not events.continues(_events(before.cell, slot.id)):
                kept = _NO_PAGES
            for number in range(max(wanted.start, kept.stop), wanted.stop):
                name = _page_row(row, index, number)
                written.append((name, cell_codec.encode_page(events, number)))
                page = _PageRow(self._table, name, self._decode_page)
                packed.append(partial(cell_codec.pack_page, events, number, page))
            if wanted:
                pages[index] = wanted
        for name, page in written:  # only now: what is written here may be what another page was read from
            self._table[name] = page
        for pack in packed:
            pack()
        for index, old in before.pages.items():
            now = pages.get(index, _NO_PAGES)
            for number in old if not now else range(old.start, min(now.start, old.stop)):
                self._write(_page_row(row, index, number), None)
            for number in range(max(now.stop, old.start), old.stop) if now else ():
                self._write(_page_row(row, index, number), None)
        if slots:
            self._stored[row] = _Stored(generation, cell, pages, self._now())

    def _write(self, row: bytes, value: bytes | None) -> None:
        if value is not None:
            self._table[row] = value
        elif row in self._table:
            del self._table[row]


def is_page_row(row: bytes) -> bool:
    """Whether a row of the table is a page, or another part of a schedule that is rarely read."""
    return row.count(SEPARATOR) > 1


def _events(cell: Cell, slot: str) -> EventList:
    accumulation = cell.accumulations.get(slot)
    return EMPTY_LIST if accumulation is None else accumulation.events


def _index_partitions(plan: Plan, cell: Cell) -> Cell:
    has = cell.accumulations
    return cell._replace(
        accumulations={slot.id: index_partitions(has[slot.id], slot) for slot in plan.slots if slot.id in has}
    )


def _row(key: bytes, name: str) -> bytes:
    return key + SEPARATOR + name.encode()


def _page_row(row: bytes, slot: int, number: int) -> bytes:
    return b"%s%s%d.%d" % (row, SEPARATOR, slot, number)
