"""Time leaves as JSON: what is as by default is not written, and a wrong field is named."""

from __future__ import annotations

from typing import Any

import pytest

from streamsched.codec.triggers import trigger as codec
from streamsched.domain.errors import InvalidError
from streamsched.domain.time.dialect import Dialect, InGap, InOverlap
from streamsched.domain.triggers.trigger import Cron, TimeLeaf, leaf_id

DAILY = {"type": "TIME", "cronExpression": "0 4 * * *"}


@pytest.mark.parametrize(
    ("leaf", "written", "name"),
    [
        (Cron("0 4 * * *"), DAILY, "cron:0 4 * * *@UTC"),
        (
            Cron("0 4 * * *", "Europe/Berlin", in_gap=InGap.SKIP, in_overlap=InOverlap.BOTH),
            {**DAILY, "timeZone": "Europe/Berlin", "inGap": "skip", "inOverlap": "both"},
            "cron:0 4 * * *@Europe/Berlin;gap=skip;overlap=both",
        ),
        (
            Cron("0 4 LW * ?", dialect=Dialect.QUARTZ),
            {"type": "TIME", "cronExpression": "0 4 LW * ?", "dialect": "quartz"},
            "cron:0 4 LW * ?@UTC;dialect=quartz",
        ),
        (
            Cron("@every 90s", dialect=Dialect.DAPR),
            {"type": "TIME", "cronExpression": "@every 90s", "dialect": "dapr"},
            "cron:@every 90s@UTC;dialect=dapr",
        ),
    ],
)
def test_a_time_leaf_is_written_and_read(leaf: TimeLeaf, written: dict[str, Any], name: str) -> None:
    assert codec.to_json(leaf) == written
    assert codec.from_json(written) == leaf
    assert leaf_id(leaf) == name


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dialect": "cron4j"}, "$.dialect: must be one of unix, quartz, dapr but is 'cron4j'"),
        ({"dialect": "dapr"}, "$.cronExpression: expected exactly 6 fields, found 5: [0 4 * * *]"),
        ({"dialect": "quartz", "cronExpression": "0 4 1 * 1"}, "$.cronExpression: exactly one of day of month and"),
        ({"inGap": "jump"}, "$.inGap: must be one of after, skip but is 'jump'"),
        ({"inOverlap": 2}, "$.inOverlap: must be a text but is a number"),
        ({"ingap": "skip"}, "$.ingap: unknown field"),
        ({"timeZone": "CET/Berlin"}, "$.timeZone: 'CET/Berlin' is no IANA time zone"),
        (
            {"dialect": "dapr", "cronExpression": "TZ=Asia/Tokyo @daily", "timeZone": "Europe/Berlin"},
            "$.timeZone: is Europe/Berlin, but the expression says Asia/Tokyo",
        ),
    ],
)
def test_a_refused_time_leaf_names_the_field(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidError) as refused:
        codec.from_json({**DAILY, **changed})
    assert str(refused.value).startswith(message)
