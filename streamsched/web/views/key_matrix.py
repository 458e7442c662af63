"""The key matrix of a schedule: a row for each key, a column for each input of its trigger. Pure.

A key is a correlation key, or, of a trigger that does not correlate, a partition. Cells: arrived, part of what is
needed, late, used by a job, missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from streamsched.domain.triggers.trigger import CustomEvent, Partitions, ProgramStatus, Total, Trigger, leaf_id, leaves
from streamsched.store.web.activity_reads import ConsumedEvents
from streamsched.web.views.names import event_href, job_href, short_name, shorten

#: Rows and columns that are shown.
ROWS: Final = 21
COLUMNS: Final = 8
#: Events of a leaf that are read.
_EVENTS: Final = 200


class MatrixCell(NamedTuple):
    """A cell: `tone` as of states, a word, and the page of its event or job; empty without one."""

    tone: str
    text: str
    href: str = ""
    event: str = ""


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A key with a cell for each column. `note`: of a run, which job it is of and what became of what is missing."""

    key: str
    cells: tuple[MatrixCell, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class KeyMatrix:
    """The newest keys last. `more`: keys that are not shown."""

    columns: tuple[str, ...] = ()
    rows: tuple[MatrixRow, ...] = ()
    more: int = 0

    @property
    def events(self) -> list[str]:
        """The ids of the events in it."""
        return sorted({cell.event for row in self.rows for cell in row.cells if cell.event})


_MISSING: Final = MatrixCell("off", "missing")


@dataclass
class _Rows:
    """Cells by key and column, as they are found."""

    cells: dict[str, dict[int, MatrixCell]] = field(default_factory=dict)

    def put(self, key: str, column: int, cell: MatrixCell, *, over: bool = False) -> None:
        row = self.cells.setdefault(key, {})
        if over or column not in row:
            row[column] = cell


def key_matrix(
    trigger: Trigger,
    progress: Mapping[str, Any] | None,
    keys: Sequence[Mapping[str, Any]],
    used: Sequence[ConsumedEvents],
    late: Collection[str] = (),
) -> KeyMatrix:
    """The matrix. `keys`: open keys as `api.open_keys` gives them, with their progress; `progress`: of the
    schedule; `used`: its newest jobs, newest first; `late`: ids of events that came late.
    """
    columns = [leaf for leaf in leaves(trigger) if isinstance(leaf, Partitions | Total | CustomEvent | ProgramStatus)]
    columns = columns[:COLUMNS]
    places = {str(leaf): place for place, leaf in enumerate(columns)}
    ids = {leaf_id(leaf): place for place, leaf in enumerate(columns)}
    rows, correlates = _Rows(), bool(keys) or any((each.ready or {}).get("key") for each in used)
    for view in keys:
        for node in _leaf_nodes(view["progress"]):
            place = places.get(str(node.get("text")))
            if place is not None:
                rows.put(view["key"], place, _open_cell(node))
    if not correlates and progress:
        for node in _leaf_nodes(progress):
            place = places.get(str(node.get("text")))
            if place is not None:
                for event in _events(node):
                    for key in _partition_keys(event):
                        rows.put(key, place, MatrixCell("ok", "arrived", _href(event), str(event.get("id", ""))))
    for job in used:
        for key, place, event in _used_events(job, ids, correlates=correlates):
            rows.put(key, place, MatrixCell("run", "used", job_href(job.job), event))
    marked = {
        key: {place: _mark_late(cell, late) for place, cell in cells.items()}
        for key, cells in sorted(rows.cells.items())
    }
    shown = list(marked.items())[-ROWS:]
    notes = {view["key"]: _note(view) for view in keys}
    return KeyMatrix(
        tuple(_heading(leaf) for leaf in columns),
        tuple(
            MatrixRow(key, tuple(cells.get(place, _MISSING) for place in range(len(columns))), notes.get(key, ""))
            for key, cells in shown
        ),
        len(marked) - len(shown),
    )


def _note(view: Mapping[str, Any]) -> str:
    job = (view.get("runOf") or {}).get("job")
    return "; ".join(
        [*([f"job {short_name(job)}"] if job else []), *(each["text"] for each in view.get("missing") or ())]
    )


def _heading(leaf: object) -> str:
    match leaf:
        case Partitions(dataset=ref) | Total(dataset=ref):
            return short_name(ref)
        case _:
            return shorten(str(leaf))


def _mark_late(cell: MatrixCell, late: Collection[str]) -> MatrixCell:
    if cell.event in late and cell.tone == "ok":
        return cell._replace(tone="wait", text="late")
    return cell


def _leaf_nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    below = node.get("children") or ()
    if not below:
        yield node
    for child in below:
        yield from _leaf_nodes(child)


def _events(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in (node.get("events") or ())[-_EVENTS:] if isinstance(each, dict)]


def _open_cell(node: Mapping[str, Any]) -> MatrixCell:
    events = _events(node)
    have, need = int(node.get("have", 0)), int(node.get("need", 0))
    if not have:
        return _MISSING
    href, event = (_href(events[-1]), str(events[-1].get("id", ""))) if events else ("", "")
    if node.get("holds"):
        return MatrixCell("ok", "arrived", href, event)
    missing = f": missing {shorten(str(node['missing_text']))}" if node.get("missing_text") else ""
    return MatrixCell("wait", f"{have} of {need}{missing}", href, "")


def _href(event: Mapping[str, Any]) -> str:
    return event_href(str(event.get("id", "")), str(event.get("source", "")))


def _partition_keys(event: Mapping[str, Any]) -> Iterable[str]:
    data = event.get("data")
    listed = data.get("partitions") if isinstance(data, dict) else None
    return [str(each["key"]) for each in listed or () if isinstance(each, dict) and "key" in each]


def _used_events(job: ConsumedEvents, ids: Mapping[str, int], *, correlates: bool) -> Iterator[tuple[str, int, str]]:
    """Key, column and event of what a job used."""
    ready = job.ready or {}
    events, key = ready.get("events") or (), str(ready.get("key", ""))
    for part in ready.get("contributions") or ():
        place = ids.get(str(part.get("leaf")))
        if place is None:
            continue
        for index in (part.get("events") or ())[-_EVENTS:]:
            event = events[index] if isinstance(index, int) and 0 <= index < len(events) else None
            if not isinstance(event, dict):
                continue
            for each in [key] if correlates and key else [] if correlates else _partition_keys(event):
                yield each, place, str(event.get("id", ""))
