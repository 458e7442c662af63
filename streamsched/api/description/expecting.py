"""Schemas of expectations, and of a dataset with what is expected of it, in answers."""

from __future__ import annotations

from typing import Final

from streamsched.api.dataset_view import DatasetState
from streamsched.api.description.shared_schemas import MAYBE_TEXT, SCHEDULE, STATE, WHEN, paged
from streamsched.codec.schema.shapes import (
    Definitions,
    answer,
    any_text,
    boolean,
    choice,
    extended,
    instant,
    listed,
    nullable,
    number,
    ref,
    whole,
)
from streamsched.domain.time.grain import Grain

_MISS: Final = answer(
    {
        "dueAt": instant(),
        "key": MAYBE_TEXT,
        "reason": any_text("default.flights was to be there by 08:00 UTC every day, 2026-03-01 08:00:00Z: no commit"),
        "foundAt": instant(),
        "announced": boolean(),
        "open": boolean(),
        "cameAt": WHEN,
        "lateSeconds": nullable(number(7800.0)),
    }
)
_EXPECTATION: Final = answer(
    {
        "id": any_text("default.shop.flights"),
        "state": choice(("met", "missing", "learning", "stopped")),
        "when": any_text("by 08:00 Europe/Berlin every day"),
        "definition": ref("Expectation"),
        "dueAt": WHEN,
        "key": MAYBE_TEXT,
        "usual": MAYBE_TEXT,
        "seenAt": WHEN,
        "openMisses": whole(0),
        "lastMiss": nullable(ref("ExpectationMiss")),
        "stopped": MAYBE_TEXT,
        "createdAt": instant(),
        "changedAt": instant(),
    }
)
_PERIODS: Final = listed(any_text("2026-03-29T23"), maxItems=100)
_KEY: Final = answer(
    {
        "key": any_text("2026-03-29"),
        "complete": boolean(example=False),
        "expected": whole(23, about="Periods, or values of a known set, that belong to the key."),
        "present": whole(22),
        "needed": whole(23, about="Those that suffice."),
        "missing": nullable(any_text("2026-03-29T23", "What is missing as text.")),
        "missingCount": whole(1),
        "missingPeriods": _PERIODS,
        "late": _PERIODS,
        "lateCount": whole(0),
        "rewritten": _PERIODS,
        "rewrittenCount": whole(0),
    }
)
_ROLL_UP: Final = answer(
    {
        "schedule": SCHEDULE,
        "of": any_text("1 new partition of default.clicks"),
        "grain": nullable(choice(Grain)),
        "rolledUpTo": nullable(choice(Grain)),
        "each": nullable(any_text("region", "The column of a known set, whose values belong to each key.")),
        "zone": MAYBE_TEXT,
        "keys": listed(_KEY, maxItems=10),
        "moreKeys": whole(0, about="Other open keys of the schedule."),
    }
)
_PARTITION: Final = answer(
    {
        "partition": any_text("day=2026-03-29/hour=05"),
        "at": instant(),
        "event": any_text("clicks-05"),
        "source": any_text("etl"),
        "rows": nullable(whole(100)),
        "bytes": nullable(whole(100)),
        "late": boolean(example=False),
        "rewritten": whole(0, about="How often it was committed before, in the records that were searched."),
    }
)
_DATASET: Final = answer(
    {
        "id": any_text("default.clicks"),
        "completeness": choice(DatasetState),
        "partitions": listed(_PARTITION, maxItems=1000),
        "morePartitions": whole(0),
        "sources": listed(answer({"source": any_text("etl"), "events": whole(24)}), maxItems=5),
        "searched": whole(2000, about="Records of the log that were searched."),
        "searchedAll": boolean(example=False, about="The log has no older ones."),
        "schedules": listed(answer({"schedule": SCHEDULE, "state": STATE, "openKeys": whole(0)}), maxItems=20),
        "moreSchedules": whole(0),
        "otherSchedules": whole(0, about="Schedules of namespaces that the caller may not view."),
        "rollUps": listed(_ROLL_UP),
        "expectations": listed(extended(_EXPECTATION, answer({"missingSince": WHEN})), maxItems=20),
        "moreExpectations": whole(0),
    }
)

EXPECTING: Final[Definitions] = {
    "DatasetPage": paged(
        "datasets",
        answer(
            {
                "id": any_text("default.flights"),
                "schedules": whole(2, about="Schedules that wait for it and that the caller may view."),
                "otherSchedules": whole(0, about="Schedules of other namespaces that wait for it."),
            }
        ),
    ),
    "Dataset": _DATASET,
    "ExpectationMiss": _MISS,
    "StoredExpectation": _EXPECTATION,
    "ExplainedExpectation": extended(_EXPECTATION, answer({"misses": listed(ref("ExpectationMiss"), maxItems=100)})),
    "ExpectationPage": paged("expectations", ref("StoredExpectation")),
}
