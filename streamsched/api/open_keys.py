"""JSON of the open keys of a schedule: progress, and for a join per run what became of the programs it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from streamsched.codec.events import native
from streamsched.codec.records.state import decode_key
from streamsched.codec.views import explanation
from streamsched.domain.access.sight import Sees
from streamsched.domain.fold.cell import Cell
from streamsched.domain.fold.explain import explain_cell
from streamsched.domain.fold.plan import Plan
from streamsched.domain.fold.state import Definition
from streamsched.domain.jobs.descendant import Descendant, text_of_none
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.schedule import ScheduleRecord
from streamsched.domain.triggers.trigger import ProgramStatus, leaf_id, leaves, run_of
from streamsched.ports.intake import OpenKey
from streamsched.store.jobs.descendants import DescendantReader


async def key_views(
    record: ScheduleRecord, keys: Sequence[OpenKey], descendants: DescendantReader, sees: Sees
) -> list[dict[str, Any]]:
    """The open keys, without those of another generation than the current definition. `sees`: of whose programs the
    jobs and runs are named.
    """
    definition = definition_of(record)
    found = list(open_cells(definition, keys))
    views = [
        {
            "key": key.key,
            "openedAt": cell.opened_at,
            "updatedAt": key.at,
            "progress": explanation.to_json(explain_cell(definition.plan, cell, key.key)),
        }
        for key, cell in found
    ]
    ancestor = run_of(definition.trigger)
    if ancestor is None or not found:
        return views
    programs = {leaf_id(leaf): leaf.program for leaf in leaves(definition.trigger) if isinstance(leaf, ProgramStatus)}
    missing = {key.key: list(_missing(definition.plan, cell, key.key, programs)) for key, cell in found}
    wanted = [(key, each) for key, some in missing.items() for each in some if sees(each.namespace)]
    known = await descendants.read_latest(ancestor, wanted) if wanted else {}
    jobs = await descendants.names(ancestor, list(missing)) if sees(ancestor.namespace) else {}
    return [
        {
            **view,
            "runOf": {"program": str(ancestor), "job": jobs.get(str(view["key"]))},
            "missing": [
                _missing_view(program, known.get((str(view["key"]), program)), hidden=not sees(program.namespace))
                for program in missing[str(view["key"])]
            ],
        }
        for view in views
    ]


def definition_of(record: ScheduleRecord) -> Definition:
    """The current definition, with its plan."""
    return Definition(record.definition.ref, record.generation, record.enabled, record.definition.trigger)


def open_cells(definition: Definition, keys: Sequence[OpenKey]) -> Iterator[tuple[OpenKey, Cell]]:
    """What the keys of this definition's generation have accumulated."""
    for key in keys:
        if key.generation == definition.generation:
            cell = decode_key(native.dumps(key.state), definition, key.key)
            if cell is not None:
                yield key, cell


def _missing(plan: Plan, cell: Cell, key: str, programs: dict[str, ProgramRef]) -> Iterator[ProgramRef]:
    """The programs whose ends are missing under a key, each once."""
    slots = (slot for slot in plan.slots if slot.leaf in programs and not slot.veto)
    open_ = (
        slot.leaf
        for slot in slots
        if (has := cell.accumulations.get(slot.id)) is None or has.count < slot.wanted_amount(key)
    )
    yield from dict.fromkeys(programs[leaf] for leaf in open_)


def _missing_view(program: ProgramRef, found: Descendant | None, *, hidden: bool) -> dict[str, Any]:
    if hidden:
        return {"program": str(program), "text": f"{program} has not ended as wanted"}
    if found is None:
        return {"program": str(program), "text": text_of_none(program)}
    return {
        "program": str(program),
        "job": found.job,
        "run": found.run,
        "state": found.run_state or found.state,
        "text": found.text,
    }
