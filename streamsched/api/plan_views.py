"""Changes of apps, programs and schedules, their plans, and what they lose, as answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from streamsched.catalog.preview import (
    Difference,
    Dropped,
    ForeseenChange,
    PotentialLoss,
    Preview,
    expectation_differences,
    program_differences,
)
from streamsched.codec.schedules.recipient import recipient_from_json, recipient_to_json
from streamsched.codec.shape.about import About
from streamsched.codec.shape.by_hand import ByHand
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.schemas import ref
from streamsched.domain.access.sight import Sees, sees_nothing
from streamsched.domain.names import ExpectationRef, ProgramRef, ScheduleRef
from streamsched.store.catalog.records import (
    Action,
    AppChange,
    BrokenJoin,
    ExpectationChange,
    ForeignWait,
    ProgramChange,
    RecipientsChange,
)
from streamsched.wire.schedules import DROPPED, PROGRAM, SCHEDULE, STATE, DroppedState

_JOIN: Final = About(
    "joins per run of default.flights.extract", "How a trigger that is an `&` of programs counts their ends."
)
_STAKE: Final = JsonShape(
    PotentialLoss, about={"leaf": About("partition:default.flights"), "have": About(3), "need": About(7)}
)
_FIELDS: Final = About(
    shape=JsonShape(Difference, about={"field": About("timeout"), "before": About("1h"), "after": About("2h")})
)
_BEFORE: Final = ByHand(recipient_from_json, recipient_to_json, ref("Recipient"))
_ON_FAILURE: Final = About(
    of="recipients",
    shape=JsonShape(
        RecipientsChange,
        about={"before": About(shape=_BEFORE), "after": About(shape=_BEFORE)},
        text="Who is notified of failures, where that changes.",
    ),
)
_BROKEN: Final = JsonShape(
    BrokenJoin,
    also=("text",),
    about={
        "schedule": SCHEDULE,
        "ancestor": PROGRAM,
        "program": PROGRAM,
        "text": About("joins per run of …"),
    },
)
_PLANNED: Final = JsonShape(
    ForeseenChange,
    outside=("generation",),
    also=("loses",),
    sometimes=("join",),
    about={
        "schedule": About(SCHEDULE.example, name="id"),
        "action": About("updated"),
        "keeps": About(False),
        "fields": _FIELDS,
        "stakes": About(name="accumulated", shape=_STAKE),
        "waiting_jobs": About(1),
        "open_keys": About(0),
        "parked": About(0, name="parkedSignals"),
        "join": _JOIN,
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedProgram:
    """A program that is stored or removed."""

    id: Annotated[ProgramRef, About(of="program.ref")]
    action: Action
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedProgram(ChangedProgram):
    """The same before it is done, with what differs."""

    fields: Annotated[Sequence[Difference], _FIELDS]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedExpectation:
    """An expectation that is stored or removed."""

    id: Annotated[ExpectationRef, About(of="ref")]
    action: Annotated[str, About("created")]
    when: Annotated[str, About("default.flights by 08:00 Europe/Berlin every day", of="expectation")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedExpectation(ChangedExpectation):
    """The same before it is done, with what differs."""

    fields: Annotated[Sequence[Difference], _FIELDS]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSchedule:
    """A schedule with a new generation. `dropped`: what it lost."""

    id: Annotated[ScheduleRef, About(of="after.definition.ref")]
    action: Action
    generation: Annotated[int, About(of="after.generation")]
    enabled: Annotated[bool, About(of="after.enabled")]
    state: Annotated[str, About(schema=STATE.schema, of="after.status")]
    keeps: Annotated[bool, About(False)]
    reason: str
    join: Annotated[str, _JOIN] = ""
    dropped: Annotated[DroppedState | None, About(shape=DROPPED)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingElsewhere:
    """Schedules of other namespaces that wait for a removed program: those that the caller may view, and how many there
    are besides.
    """

    schedules: Annotated[Sequence[str], About("finance.pay.critical")]
    others: Annotated[int, About(0)]


_CHANGED_PROGRAM: Final = JsonShape(ChangedProgram)
_PLANNED_PROGRAM: Final = JsonShape(PlannedProgram)
_CHANGED_EXPECTATION: Final = JsonShape(ChangedExpectation)
_PLANNED_EXPECTATION: Final = JsonShape(PlannedExpectation)
_CHANGED_SCHEDULE: Final = JsonShape(ChangedSchedule, sometimes=("join", "dropped"))
_ELSEWHERE: Final = About(
    shape=JsonShape(
        WaitingElsewhere,
        text="Schedules of other namespaces that wait for a removed program. They stay as they are: those that the "
        "caller may view, and how many others.",
    )
)
_BROKEN_JOINS: Final = About(
    text="Schedules that count ends of programs per run of an ancestor, which leads to one of these no more.",
    shape=_BROKEN,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramChanges:
    """What the removal of a program changed."""

    programs: Annotated[Sequence[ProgramChange], About(shape=_CHANGED_PROGRAM)]
    schedules: Annotated[Sequence[ChangedSchedule], About(shape=_CHANGED_SCHEDULE)]
    expectations: Annotated[Sequence[ExpectationChange], About(shape=_CHANGED_EXPECTATION)]
    on_failure: Annotated[RecipientsChange | None, _ON_FAILURE]
    waiting_elsewhere: Annotated[WaitingElsewhere, _ELSEWHERE]
    broken_joins: Annotated[Sequence[BrokenJoin], _BROKEN_JOINS] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes(ProgramChanges):
    """What a change of an app changed. `ended_jobs`: of a pause, a disablement or a deletion."""

    app: Annotated[str, About("default.flights")]
    ended_jobs: Annotated[Sequence[str] | None, About("default.flights.weekly.1.1")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeProgress:
    """Whether the log has acknowledged a change."""

    change: Annotated[str, About("1-2")]
    pending: Annotated[int, About(0)]
    acknowledged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChanges(ProgramChanges):
    """The same as `Changes`, before the log has acknowledged it."""

    app: Annotated[str, About("default.flights")]
    change: Annotated[str, About("1-2")]
    pending: Annotated[int, About(2)]
    acknowledged: Annotated[bool, About(False)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """What a change would do."""

    dry_run: bool = True
    plan: Annotated[
        str,
        About("3f1c", "Identifies the plan; a change that is sent with it does this or nothing.", of="token"),
    ]
    differs: bool
    loses: Annotated[bool, About(text="Accumulated events, waiting jobs or schedules would be lost.")]
    deployed_from: Annotated[str | None, About(of="origin", blank=True)]
    programs: Annotated[Sequence[PlannedProgram], About(shape=_PLANNED_PROGRAM)]
    schedules: Annotated[Sequence[ForeseenChange], About(shape=_PLANNED)]
    expectations: Annotated[Sequence[PlannedExpectation], About(shape=_PLANNED_EXPECTATION)]
    on_failure: Annotated[RecipientsChange | None, _ON_FAILURE]
    waiting_elsewhere: Annotated[WaitingElsewhere, _ELSEWHERE]
    broken_joins: Annotated[Sequence[BrokenJoin], _BROKEN_JOINS] = ()
    app: Annotated[str, About("default.flights")] = ""
    installation: Annotated[str, About("postgresql://host/streamsched")] = ""


PROGRAM_CHANGES: Final = JsonShape(ProgramChanges, sometimes=("brokenJoins",))
CHANGES: Final = JsonShape(Changes, sometimes=("brokenJoins", "endedJobs"))
PENDING_CHANGES: Final = JsonShape(PendingChanges, sometimes=("brokenJoins",))
CHANGE: Final = JsonShape(ChangeProgress, "Change")
PLAN: Final = JsonShape(ChangePlan, "Plan", sometimes=("brokenJoins", "app", "installation"))


def change_view(
    shape: JsonShape[Any],
    change: AppChange,
    sees: Sees = sees_nothing,
    /,
    *,
    losses: Mapping[ScheduleRef, Dropped] | None = None,
    **more: object,
) -> dict[str, Any]:
    """A change of a program or an app. `losses`: of its schedules, as read just before."""
    schedules = [
        _CHANGED_SCHEDULE.answer_of(
            each,
            join=change.joins.get(each.after.definition.ref, ""),
            dropped=None if losses is None else losses.get(each.after.definition.ref, Dropped()),
        )
        for each in change.schedules
    ]
    elsewhere = _schedules_elsewhere(change.foreign_waits, sees)
    return shape.answer_of(change, schedules=schedules, waiting_elsewhere=elsewhere, **more)


def preview_view(preview: Preview, sees: Sees = sees_nothing, **more: object) -> dict[str, Any]:
    """A plan."""
    return PLAN.answer_of(
        preview,
        programs=[_PLANNED_PROGRAM.answer_of(each, fields=[*program_differences(each)]) for each in preview.programs],
        expectations=[
            _PLANNED_EXPECTATION.answer_of(each, fields=[*expectation_differences(each)])
            for each in preview.expectations
        ],
        waiting_elsewhere=_schedules_elsewhere(preview.foreign_waits, sees),
        **more,
    )


def _schedules_elsewhere(waits: Sequence[ForeignWait], sees: Sees) -> WaitingElsewhere:
    schedules = {each.schedule for each in waits}
    visible = sorted(str(each) for each in schedules if sees(each.namespace))
    return WaitingElsewhere(schedules=visible, others=len(schedules) - len(visible))
