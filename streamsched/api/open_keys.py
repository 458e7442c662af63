"""The open keys of a schedule as answers: progress, and for a join per run what became of the programs it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

from streamsched.codec.events import native
from streamsched.codec.records.state import decode_key
from streamsched.codec.shape.about import About
from streamsched.codec.shape.by_hand import ByHand, keep_json
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.schemas import ref
from streamsched.codec.views import explanation
from streamsched.domain.access.sight import Sees
from streamsched.domain.fold.cell import Cell
from streamsched.domain.fold.explain import Explanation, explain_cell
from streamsched.domain.fold.plan import Plan
from streamsched.domain.fold.state import Definition
from streamsched.domain.jobs.descendant import Descendant, text_of_none
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.schedule import ScheduleRecord
from streamsched.domain.triggers.trigger import ProgramStatus, leaf_id, leaves, run_of
from streamsched.ports.intake import OpenKey
from streamsched.store.jobs.descendants import DescendantReader
from streamsched.wire.schedules import LOSSES, ScheduleLosses

_JOB: Final = About("default.flights.weekly.1.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedProgram:
    """What became of a program whose end is missing. The job is said where it is known and may be seen."""

    program: ProgramRef
    text: Annotated[str, About("default.flights.join failed in run …")]
    job: Annotated[str, _JOB] = ""
    run: Annotated[str | None, About("default.flights.weekly.1.1.r1")] = ""
    state: Annotated[str, About("FAILED")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedRun:
    """The run of a program that a key is."""

    program: ProgramRef
    job: Annotated[str | None, _JOB]


_AWAITED: Final = JsonShape(AwaitedProgram, sometimes=("job", "run", "state"))
_RUN_OF: Final = JsonShape(
    JoinedRun,
    text="Of a join per run: the key is a run of this program. The job where it is known and may be seen.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenKeyState:
    """An open key with its progress."""

    key: Annotated[str, About("day=2026-03-01")]
    opened_at: datetime
    updated_at: Annotated[datetime, About(of="at")]
    progress: Annotated[
        Explanation,
        About(shape=ByHand(keep_json, explanation.to_json, ref(explanation.PROGRESS.name), [explanation.PROGRESS])),
    ]
    run_of: Annotated[JoinedRun | None, About(shape=_RUN_OF)] = None
    missing: Annotated[
        Sequence[AwaitedProgram] | None,
        About(text="Of a join per run: what became of the programs whose ends are missing.", shape=_AWAITED),
    ] = None


_KEY: Final = JsonShape(OpenKeyState, sometimes=("runOf", "missing"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenKeyPage:
    """Open keys of a schedule, and what it lost."""

    keys: Annotated[Sequence[OpenKeyState], About(shape=_KEY)]
    losses: Annotated[ScheduleLosses | None, About(shape=LOSSES)]
    next: Annotated[str, About("day=2026-03-01")] = ""


KEYS: Final = JsonShape(OpenKeyPage, "KeyPage", sometimes=("next",))


async def key_views(
    record: ScheduleRecord, keys: Sequence[OpenKey], descendants: DescendantReader, sees: Sees
) -> list[dict[str, Any]]:
    """The open keys, without those of another generation than the current definition. `sees`: of whose programs the
    jobs and runs are named.
    """
    definition = definition_of(record)
    found = list(open_cells(definition, keys))
    ancestor = run_of(definition.trigger)
    joins = {} if ancestor is None or not found else await _joins(ancestor, definition, found, descendants, sees)
    return [
        _KEY.answer_of(
            key,
            opened_at=cell.opened_at,
            progress=explain_cell(definition.plan, cell, key.key),
            **joins.get(key.key, {}),
        )
        for key, cell in found
    ]


async def _joins(
    ancestor: ProgramRef,
    definition: Definition,
    found: Sequence[tuple[OpenKey, Cell]],
    descendants: DescendantReader,
    sees: Sees,
) -> dict[str, dict[str, Any]]:
    """Of a join per run, by key: `run_of` and `missing`."""
    programs = {leaf_id(leaf): leaf.program for leaf in leaves(definition.trigger) if isinstance(leaf, ProgramStatus)}
    missing = {key.key: list(_missing_programs(definition.plan, cell, key.key, programs)) for key, cell in found}
    wanted = [(key, each) for key, some in missing.items() for each in some if sees(each.namespace)]
    known = await descendants.read_latest(ancestor, wanted) if wanted else {}
    jobs = await descendants.names(ancestor, list(missing)) if sees(ancestor.namespace) else {}
    return {
        key: {
            "run_of": JoinedRun(program=ancestor, job=jobs.get(key)),
            "missing": [
                _awaited_program(each, known.get((key, each)), hidden=not sees(each.namespace)) for each in some
            ],
        }
        for key, some in missing.items()
    }


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


def _missing_programs(plan: Plan, cell: Cell, key: str, programs: dict[str, ProgramRef]) -> Iterator[ProgramRef]:
    """The programs whose ends are missing under a key, each once."""
    slots = (slot for slot in plan.slots if slot.leaf in programs and not slot.veto)
    open_ = (
        slot.leaf
        for slot in slots
        if (has := cell.accumulations.get(slot.id)) is None or has.count < slot.wanted_amount(key)
    )
    yield from dict.fromkeys(programs[leaf] for leaf in open_)


def _awaited_program(program: ProgramRef, found: Descendant | None, *, hidden: bool) -> AwaitedProgram:
    if hidden:
        return AwaitedProgram(program=program, text=f"{program} has not ended as wanted")
    if found is None:
        return AwaitedProgram(program=program, text=text_of_none(program))
    state = found.run_state or found.state
    return AwaitedProgram(program=program, job=found.job, run=found.run, state=state, text=found.text)
