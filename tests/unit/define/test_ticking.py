"""Time leaves in their owner's words."""

from __future__ import annotations

import pytest

from streamsched import App, When, cron
from streamsched.domain.dialect import Dialect, InGap, InOverlap
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.names import AppRef
from streamsched.domain.trigger import Cron, Trigger

SHOP = AppRef("default", "shop")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (cron("0 4 ? * 6#3", dialect="quartz"), Cron("0 4 ? * 6#3", dialect=Dialect.QUARTZ)),
        (cron("@every 90s", dialect=Dialect.DAPR), Cron("@every 90s", dialect=Dialect.DAPR)),
        (
            cron("30 2 * * *", "Europe/Berlin", in_gap="skip", in_overlap="second"),
            Cron("30 2 * * *", "Europe/Berlin", in_gap=InGap.SKIP, in_overlap=InOverlap.SECOND),
        ),
    ],
)
def test_a_time_leaf_in_words_is_the_leaf(written: When, meant: Trigger) -> None:
    assert written.build(SHOP) == meant


@pytest.mark.parametrize(
    ("when", "message"),
    [
        (cron("0 4 * * *", dialect="cron4j"), "$.schedules.s.when.dialect: must be one of unix, quartz, dapr but is"),
        (cron("0 4 * * 1", in_gap="jump"), "$.schedules.s.when.in_gap: must be one of after, skip but is 'jump'"),
        (cron("0 4 1 * 1", dialect="quartz"), "$.schedules.s.when.expression: exactly one of day of month and"),
    ],
)
def test_a_mistake_is_told_where_it_is_made(when: When, message: str) -> None:
    app = App("shop")
    program = app.bash("p", "true")
    with pytest.raises(InvalidDefinitionError) as refused:
        app.schedule("s", program, when=when)
    assert str(refused.value).startswith(message)
