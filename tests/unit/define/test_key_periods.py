"""Which periods keys name, as `per` says it or the names of its columns do."""

from __future__ import annotations

import pytest

from streamsched import App, event, partitions
from streamsched.codec.triggers import trigger as codec
from streamsched.define.combinators import TriggerExpression
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.names import AppRef
from streamsched.domain.time.grain import Grain
from streamsched.domain.time.period import NO_ZONE
from streamsched.domain.triggers.correlation import Per

APP = AppRef("default", "shop")
BERLIN = "Europe/Berlin"
CLICKS = partitions("clicks")


@pytest.mark.parametrize(
    ("expression", "grains", "zone"),
    [
        (CLICKS.per("hour"), (Grain.HOUR, None, None), NO_ZONE),
        (CLICKS.per("date"), (Grain.DAY, None, None), NO_ZONE),
        (CLICKS.per("week", zone=BERLIN), (Grain.WEEK, None, None), BERLIN),
        (CLICKS.per("hour", grain="text"), (None, None, None), NO_ZONE),
        (CLICKS.per("region"), (None, None, None), NO_ZONE),
        (CLICKS.per("region", "date"), (None, None, None), NO_ZONE),
        (CLICKS.per("day", "hour"), (None, None, None), NO_ZONE),
        (CLICKS.per("day", "hour", grain="hour"), (Grain.HOUR, None, None), NO_ZONE),
        (CLICKS.per("day", "hour", zone=BERLIN), (Grain.HOUR, None, None), BERLIN),
        (CLICKS.per("dt", "hr", grain="hour", zone=BERLIN), (Grain.HOUR, None, None), BERLIN),
        (CLICKS.per("hour").rolled_up_to("day"), (Grain.HOUR, Grain.DAY, None), NO_ZONE),
        (CLICKS.per("hour").rolled_up_to("week", zone=BERLIN), (Grain.HOUR, Grain.WEEK, None), BERLIN),
        (CLICKS.per("hour", zone=BERLIN).rolled_up_to("day"), (Grain.HOUR, Grain.DAY, None), BERLIN),
        (CLICKS.per("day", "hour").rolled_up_to("day", of=20), (Grain.HOUR, Grain.DAY, None), NO_ZONE),
        (CLICKS.per("year", "month", "day").rolled_up_to("month"), (Grain.DAY, Grain.MONTH, None), NO_ZONE),
        (CLICKS.per("date").fanned_out_to("hour", zone=BERLIN), (Grain.DAY, None, Grain.HOUR), BERLIN),
    ],
)
def test_a_key_is_of_the_periods_that_are_said(
    expression: TriggerExpression, grains: tuple[Grain | None, ...], zone: str
) -> None:
    per = expression.build(APP)

    assert isinstance(per, Per)
    assert (per.grain, per.rolled_up_to, per.fanned_out_to) == grains
    assert per.zone == zone
    assert codec.from_json(codec.to_json(per)) == per
    assert ("zone" in codec.to_json(per)) == (zone != NO_ZONE)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (CLICKS.per("hour", grain="minute"), r"\.grain: must be one of hour, day, week, month, year but is 'minute'"),
        (CLICKS.per("hour", zone="Europe/Bonn"), r"\.zone: 'Europe/Bonn' is no IANA time zone; did you mean"),
        (CLICKS.per("region", zone=BERLIN), r"\.zone: is of periods, so it needs a grain"),
        (
            CLICKS.per("hour", zone=BERLIN).rolled_up_to("day", zone="Asia/Tokyo"),
            r"\.zone: is Asia/Tokyo, but `per` says Europe/Berlin, in partitions\('clicks', 1\)\.per\('hour', zone=",
        ),
        (
            CLICKS.per("hour", "day").rolled_up_to("day"),
            r"\.by: must name one hour from coarse to fine, as day and hour; but hour is where its day is, in ",
        ),
        (CLICKS.per("dt", "hr").rolled_up_to("day"), r"\.grain: is missing: .* whichever dt and hr name together"),
        (CLICKS.per("hour", grain="text").rolled_up_to("day"), r"\.grain: is missing: "),
        (CLICKS.per("week").rolled_up_to("month"), r"\.rolled_up_to: is month, but weeks do not divide months"),
    ],
)
def test_what_cannot_be_says_what_to_write(expression: TriggerExpression, message: str) -> None:
    app = App("shop")
    with pytest.raises(InvalidDefinitionError, match=rf"^\$\.schedules\.s\.when{message}"):
        app.schedule("s", app.bash("p", "true"), when=expression)


def test_keys_that_are_never_equal_are_refused_when_they_are_waited_for_together() -> None:
    app = App("shop")
    app.schedule("s", app.bash("p", "true"), when=CLICKS.per("hour") & partitions("orders").per("date"))

    with pytest.raises(InvalidDefinitionError, match=r"^\$\.schedules\[0\]\.trigger: waits for days and for hours, "):
        app.definition()


def test_what_arrives_for_a_task_keeps_its_name() -> None:
    """Its name is a function of the condition, by which what has arrived stays known."""
    app = App("shop")
    say = app.bash("say", "true")
    days = {"date": "date"}
    app.task("report", say, job_id="{date}", components=days, depends_on=[CLICKS.per("date")])
    app.task("other", say, job_id="{date}", components=days, depends_on=[event("go").per("date")])

    names = {each.ref.name for each in app.definition().schedules}

    assert names == {"report", "other", "partitions-clicks-date", "event-go-date"}
