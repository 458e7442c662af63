"""Numbers and booleans of CDAP's forms of a schedule that are written as text."""

from __future__ import annotations

from typing import Any

import pytest

from streamsched.dialects.cdap.codec import schedule as codec
from streamsched.dialects.cdap.codec import specification
from streamsched.domain.errors import InvalidError
from streamsched.domain.names import ScheduleRef
from tests.unit.codec.test_cdap_schedule_json import LINES, NIGHTLY, SMALL, golden


def as_texts(value: Any) -> Any:
    """The same with each number and boolean written as text."""
    match value:
        case dict():
            return {name: as_texts(each) for name, each in value.items()}
        case list():
            return [as_texts(each) for each in value]
        case bool() | int():
            return str(value)
        case _:
            return value


@pytest.mark.parametrize("name", ["schedule", "schedule_detail"])
def test_numbers_and_booleans_may_be_texts(name: str) -> None:
    detail = golden(name)
    texts = {**as_texts(detail), "lastUpdateTime": detail.get("lastUpdateTime")}
    ref = ScheduleRef("default", "orders", detail["name"])
    schedule = codec.from_json(detail, ref)

    assert codec.from_json(texts, ref) == schedule
    assert codec.change_schedule(schedule, texts) == schedule


@pytest.mark.parametrize("wrong", ["", "five", "-1", "5.0", " 5", "٥", "9" * 20])
def test_a_text_that_is_no_number_is_refused_with_its_path(wrong: str) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"trigger": {**LINES, "numPartitions": wrong}}, "$.trigger.numPartitions"),
        ({"timeoutMillis": wrong}, "$.timeoutMillis"),
        ({"constraints": [{"type": "CONCURRENCY", "maxConcurrency": wrong}]}, "$.constraints[0].maxConcurrency"),
        (
            {"constraints": [{"type": "CONCURRENCY", "maxConcurrency": 1, "waitUntilMet": wrong}]},
            "$.constraints[0].waitUntilMet",
        ),
    ]
    for more, path in cases:
        with pytest.raises(InvalidError) as refused:
            codec.from_json({**SMALL, **more}, NIGHTLY)
        assert refused.value.path == path


def test_numbers_of_the_older_form_may_be_texts() -> None:
    spec = golden("specification_stream")

    assert specification.from_json(as_texts(spec), NIGHTLY) == specification.from_json(spec, NIGHTLY)
