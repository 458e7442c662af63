"""The tables of `docs/reference/dapr-jobs.md` say what the code does."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamsched.dialects.dapr.codec.job_json import job_from_object
from streamsched.dialects.dapr.desk import request_of
from streamsched.domain.errors import InvalidError
from streamsched.domain.tasks.recurrence import first_tick, next_ticks

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "dapr-jobs.md"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROWS = re.findall(r"^\| `(\{.*\})` \| (?:`([-+\ds ]+)`|refused: (.+)) \|$", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("job", "deliveries", "refused"), ROWS)
def test_a_row_of_the_page(job: str, deliveries: str, refused: str) -> None:
    given = job_from_object("j", json.loads(job))
    if refused:
        with pytest.raises(InvalidError) as error:
            request_of(given, NOW, overwrite=False)
        assert refused in error.value.reason
        return
    request = request_of(given, NOW, overwrite=False)
    assert request is not None
    ticks = [request.due_at]
    if request.recurrence is not None:
        first = first_tick(request.recurrence, request.due_at, NOW)
        assert first is not None
        ticks = list(next_ticks(request.recurrence, 0, first, NOW, 9))
    assert " ".join(f"{(each - NOW).total_seconds():+.0f}s" for each in ticks if each is not None) == deliveries


def test_the_page_has_its_rows() -> None:
    assert len(ROWS) == len(re.findall(r"^\| `\{", PAGE.read_text(), re.MULTILINE)) == 26
