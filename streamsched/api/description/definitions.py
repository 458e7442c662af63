"""Schemas of the answers about definitions: apps, programs, schedules, preferences, ticks and bookmarks."""

from __future__ import annotations

from typing import Any, Final

from streamsched.api.description.shared_schemas import JOB, MAYBE_TEXT, PROGRAM, RUN, SCHEDULE, STATE, WHEN
from streamsched.api.views import VERDICT_TOTAL
from streamsched.codec.schema.apps import DEFINITIONS
from streamsched.codec.schema.programs import KINDS
from streamsched.codec.shape.schemas import (
    Definitions,
    Schema,
    answer,
    any_text,
    anything,
    array,
    boolean,
    drop_members,
    extend,
    instant,
    integer,
    nullable,
    one_of,
    page,
    record,
    ref,
    text,
)

_ONLY_SUBMITTED: Final = ("enabled", "onChange")
_SOMETIMES: Final = ("catchUp", "late", "pauseAfter", "deadlines")


def _written(schema: Schema, sometimes: tuple[str, ...]) -> Schema:
    """A definition as it is written: with all members but some."""
    return {**schema, "required": [each for each in schema["properties"] if each not in sometimes]}


_SCHEDULE: Final = _written(drop_members(DEFINITIONS["Schedule"], *_ONLY_SUBMITTED), _SOMETIMES)
_KEY: Final = answer(
    {"key": any_text("day=2026-03-01"), "openedAt": instant(), "updatedAt": instant(), "progress": ref("Progress")},
    {
        "runOf": answer(
            {"program": PROGRAM, "job": nullable(JOB)},
            about="Of a join per run: the key is a run of this program. The job where it is known and may be seen.",
        ),
        "missing": array(
            answer(
                {"program": PROGRAM, "text": any_text("default.flights.join failed in run …")},
                {"job": JOB, "run": nullable(RUN), "state": any_text("FAILED")},
            ),
            about="Of a join per run: what became of the programs whose ends are missing.",
        ),
    },
)
_LOSSES: Final = nullable(
    answer(
        {
            "expiredKeys": integer(0),
            "droppedKeys": integer(0),
            "refusedEvents": integer(0),
            "keylessEvents": integer(12, about="Events without a key, or with partitions without one."),
            "keylessWhy": any_text("hour='5am' names no hour", "Why the last of them had none."),
        }
    )
)
_SHOWN: Final = answer(
    {
        "id": SCHEDULE,
        "when": any_text("7 partitions of default.flights", "The trigger as a sentence."),
        "enabled": boolean(),
        "state": STATE,
        "pause": nullable(answer({"mode": any_text("keep"), "keep": boolean(), "until": WHEN, "note": any_text()})),
        "generation": integer(1),
        "createdAt": instant(),
        "updatedAt": instant(),
        "nextTickAt": WHEN,
        "waitingJobs": integer(0),
        "openKeys": integer(0),
        "losses": _LOSSES,
        "progress": nullable(anything({}, "How far the trigger is.") | {"type": "object"}),
        "error": nullable(
            answer(
                {
                    "kind": any_text("fold"),
                    "message": any_text("cannot be decoded"),
                    "signal": any_text("topic 3/17"),
                    "at": instant(),
                    "parked": integer(2),
                    "attempts": integer(1),
                    "release": any_text("0.1.0"),
                    "why": any_text("the signal cannot be decoded"),
                }
            )
        ),
        "removed": {
            **array(
                answer(
                    {
                        "program": any_text("sales.orders.load"),
                        "at": instant(),
                        "by": any_text("token:sales-ci"),
                        "text": any_text("waits for sales.orders.load, which was deleted by token:sales-ci at …"),
                    }
                )
            ),
            "description": "Programs of other namespaces that it waits for and that were deleted.",
        },
    }
)
_TICK: Final = answer(
    {
        "schedule": SCHEDULE,
        "program": PROGRAM,
        "state": STATE,
        "leaf": any_text("cron:0 4 * * *"),
        "when": any_text("at 04:00"),
        "at": instant(),
        "firesAt": instant(),
    }
)
_NOTE: Final[dict[str, Any]] = {"kind": any_text("gap"), "text": any_text("02:30 does not exist on that day")}
_FORECAST: Final = answer(
    {
        "leaf": any_text("cron:0 4 * * *"),
        "when": any_text("at 04:00"),
        "zone": nullable(any_text("UTC")),
        "ticks": array(
            answer(
                {
                    "at": instant(),
                    "local": any_text("2026-03-01T07:00:00+01:00"),
                    "firesAt": instant(),
                    "notes": array(answer(_NOTE)),
                }
            )
        ),
        "omitted": array(answer({"day": any_text("2026-03-29"), **_NOTE})),
    }
)
_COMMIT: Final = answer(
    {"number": integer(1), "commit": any_text("3f1c"), "manifest": any_text("_manifests/3f1c.json")}
)

ANSWERS: Final[Definitions] = {
    "StoredProgram": one_of(
        *(extend(each, answer({"id": PROGRAM})) for each in KINDS),
        about="A program with its id and default arguments.",
    ),
    "ProgramPage": page("programs", ref("StoredProgram")),
    "Progress": {
        **answer(
            {
                "text": any_text("7 partitions of default.flights"),
                "holds": boolean(example=False),
                "have": integer(3),
                "need": integer(7),
                "missing": integer(4),
            },
            {
                "events": array({"type": "object"}),
                "older": integer(0),
                "due_at": instant(),
                "then": MAYBE_TEXT,
                "children": array(ref("Progress")),
            },
        ),
        "additionalProperties": True,
        "description": "How far a trigger is, and what it waits for.",
    },
    "StoredSchedule": {
        **extend(_SCHEDULE, _SHOWN),
        "properties": {
            **extend(_SCHEDULE, _SHOWN)["properties"],
            "verdicts": array(ref("VerdictTotal")),
            "grants": array(ref("NamespaceGrant")),
        },
        "description": "A schedule: its definition, its state and its progress.",
    },
    "SuspendedSchedule": extend(_SCHEDULE, _SHOWN, answer({"dropped": ref("Dropped"), "endedJobs": array(any_text())})),
    "SchedulePage": page("schedules", ref("StoredSchedule")),
    "VerdictTotal": VERDICT_TOTAL.answer_schema(),
    "KeyPage": answer({"keys": array(_KEY), "losses": _LOSSES}, {"next": any_text("day=2026-03-01")}),
    "TickList": answer({"ticks": array(_TICK)}),
    "Forecast": answer({"leaves": array(_FORECAST)}),
    "ScheduleForecast": answer(
        {
            "schedule": SCHEDULE,
            "enabled": boolean(),
            "state": STATE,
            "leaves": array(_FORECAST),
            "sinceLastRun": array(
                answer(
                    {"leaf": any_text(), "when": any_text(), "after": any_text("4h"), "at": WHEN, "active": boolean()}
                )
            ),
        }
    ),
    "BookmarkPage": page(
        "bookmarks", answer({"name": any_text("watch.default.flights"), "revision": integer(3), "changedAt": WHEN})
    ),
    "Bookmark": answer(
        {"name": any_text("watch.default.flights"), "revision": integer(3)},
        {"changedAt": WHEN, "value": any_text("17"), "pending": MAYBE_TEXT},
    ),
    "FileSetCommit": _COMMIT,
    "FileSetCommitPage": answer(
        {"location": MAYBE_TEXT, "commits": array(ref("FileSetCommit"))},
        {"next": integer(1000, about="`after` of the following page.")},
    ),
    "NewFileSetCommit": record(
        {
            "commit": text("3f1c"),
            "manifest": text("_manifests/3f1c.json", minLength=1),
            "location": text("s3://lake/flights", minLength=1),
        },
        {"job": text("default.flights.weekly.1.1"), "attempt": integer(1, least=1)},
    ),
    "Fence": record({"job": text("default.flights.weekly.1.1", minLength=1), "attempt": integer(2, least=1)}),
    "FencedAttempts": answer({"job": text("default.flights.weekly.1.1"), "attempt": integer(2)}),
    "ForgottenCommits": answer({"deleted": integer(2)}),
    "Cues": answer({"name": any_text("watch.default.flights"), "cues": integer(2)}),
    "NewBookmark": record(
        {"value": text("17"), "revision": integer(3)}, {"run": text("default.flights.weekly.1.1.r1")}
    ),
    "DeletedBookmark": answer({"name": any_text("watch.default.flights"), "deleted": boolean()}),
}
