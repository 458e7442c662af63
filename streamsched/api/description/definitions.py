"""Schemas of the answers about definitions: apps, programs, schedules, preferences, ticks and bookmarks."""

from __future__ import annotations

from typing import Any, Final

from streamsched.api.description.shared_schemas import MAYBE_TEXT, PROGRAM, SCHEDULE, STATE, WHEN
from streamsched.codec.shape.schemas import (
    Definitions,
    answer,
    any_text,
    array,
    boolean,
    instant,
    integer,
    nullable,
    page,
    record,
    ref,
    text,
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
