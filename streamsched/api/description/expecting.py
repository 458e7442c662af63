"""Schemas of datasets in answers."""

from __future__ import annotations

from typing import Final

from streamsched.api.dataset_view import DatasetState
from streamsched.api.description.shared_schemas import MAYBE_TEXT, SCHEDULE, STATE, WHEN
from streamsched.codec.shape.schemas import (
    Definitions,
    answer,
    any_text,
    array,
    boolean,
    choice,
    extend,
    instant,
    integer,
    nullable,
    page,
)
from streamsched.domain.time.grain import Grain
from streamsched.wire.expectations import EXPECTATION

_PERIODS: Final = array(any_text("2026-03-29T23"), maxItems=100)
_KEY: Final = answer(
    {
        "key": any_text("2026-03-29"),
        "complete": boolean(example=False),
        "expected": integer(23, about="Periods, or values of a known set, that belong to the key."),
        "present": integer(22),
        "needed": integer(23, about="Those that suffice."),
        "missing": nullable(any_text("2026-03-29T23", "What is missing as text.")),
        "missingCount": integer(1),
        "missingPeriods": _PERIODS,
        "late": _PERIODS,
        "lateCount": integer(0),
        "rewritten": _PERIODS,
        "rewrittenCount": integer(0),
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
        "keys": array(_KEY, maxItems=10),
        "moreKeys": integer(0, about="Other open keys of the schedule."),
    }
)
_PARTITION: Final = answer(
    {
        "partition": any_text("day=2026-03-29/hour=05"),
        "at": instant(),
        "event": any_text("clicks-05"),
        "source": any_text("etl"),
        "rows": nullable(integer(100)),
        "bytes": nullable(integer(100)),
        "late": boolean(example=False),
        "rewritten": integer(0, about="How often it was committed before, in the records that were searched."),
    }
)
_DATASET: Final = answer(
    {
        "id": any_text("default.clicks"),
        "completeness": choice(DatasetState),
        "partitions": array(_PARTITION, maxItems=1000),
        "morePartitions": integer(0),
        "sources": array(answer({"source": any_text("etl"), "events": integer(24)}), maxItems=5),
        "searched": integer(2000, about="Records of the log that were searched."),
        "searchedAll": boolean(example=False, about="The log has no older ones."),
        "schedules": array(answer({"schedule": SCHEDULE, "state": STATE, "openKeys": integer(0)}), maxItems=20),
        "moreSchedules": integer(0),
        "otherSchedules": integer(0, about="Schedules of namespaces that the caller may not view."),
        "rollUps": array(_ROLL_UP),
        "expectations": array(extend(EXPECTATION.answer_schema(), answer({"missingSince": WHEN})), maxItems=20),
        "moreExpectations": integer(0),
    }
)

EXPECTING: Final[Definitions] = {
    "DatasetPage": page(
        "datasets",
        answer(
            {
                "id": any_text("default.flights"),
                "schedules": integer(2, about="Schedules that wait for it and that the caller may view."),
                "otherSchedules": integer(0, about="Schedules of other namespaces that wait for it."),
            }
        ),
    ),
    "Dataset": _DATASET,
}
