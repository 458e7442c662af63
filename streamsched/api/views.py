"""Answers about apps, programs and schedules, written from the records of the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from streamsched.codec.schedules.schedule import program_to_json, schedule_to_json
from streamsched.codec.schema.programs import KINDS as PROGRAM_KINDS
from streamsched.codec.schema.schedules import WRITTEN
from streamsched.codec.shape.about import About
from streamsched.codec.shape.by_hand import ByHand, keep_json
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.schemas import any_text, anything, nullable, one_of, ref
from streamsched.domain.history import HistoryEntry
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.schedule import Program
from streamsched.launcher.whynot import WhyNot, WhyNotLine
from streamsched.store.catalog.records import AppSummary
from streamsched.store.catalog.versions import ScheduleVersion
from streamsched.wire.schedules import DeployedSchedule, SuspendedSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedProgram:
    """A program with its id and default arguments."""

    id: Annotated[ProgramRef, About(of="ref")]
    definition: Annotated[Program, About(spread=True, shape=ByHand(keep_json, program_to_json, one_of(*PROGRAM_KINDS)))]


APP_SUMMARY: Final = JsonShape(
    AppSummary,
    outside=("schedules",),
    also=("totals",),
    about={
        "ref": About(name="id", schema=any_text("default.flights")),
        "programs": About(2),
        "totals": About(1, name="schedules", key="total"),
        "origin": About(name="deployedFrom", schema=nullable(any_text()), blank=True),
    },
)
APPS: Final = APP_SUMMARY.page("apps", "AppPage")
_LINE: Final = JsonShape(WhyNotLine, about={"subject": About(name="job")})
WHY_NOT: Final = JsonShape(
    WhyNot,
    about={
        "schedule": About("default.flights.weekly"),
        "summary": About("It waits for 4 partitions of default.flights."),
        "lines": About(shape=_LINE),
        "events": About("1 event was used"),
        "progress": About(schema=anything()),
    },
)
HISTORY_ENTRY: Final = JsonShape(
    HistoryEntry,
    outside=("subject_kind", "subject"),
    about={"action": About("created"), "detail": About(schema=anything())},
)
HISTORY: Final = HISTORY_ENTRY.whole_list("history", "History")
VERSION: Final = JsonShape(ScheduleVersion, about={"definition": About(schema=ref("ChangedSchedule"))})
VERSIONS: Final = VERSION.whole_list("versions", "ScheduleVersions")
_DEFINITION: Final = About(of="record.definition", spread=True, shape=ByHand(keep_json, schedule_to_json, WRITTEN))
_SHOWN: Final = ("etag", "verdicts", "grants")
SCHEDULE: Final = JsonShape(
    DeployedSchedule,
    "StoredSchedule",
    outside=_SHOWN[:1],
    sometimes=_SHOWN[1:],
    about={"definition": _DEFINITION},
    text="A schedule: its definition, its state and its progress.",
)
SUSPENDED: Final = JsonShape(
    SuspendedSchedule, outside=_SHOWN, about={"definition": _DEFINITION}, text="A schedule of an app."
)
PROGRAM: Final = JsonShape(DeployedProgram, "StoredProgram", text="A program with its id and default arguments.")


def program_view(program: Program) -> dict[str, Any]:
    """A program."""
    return PROGRAM.answer_of(program, definition=program)
