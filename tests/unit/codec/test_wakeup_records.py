"""Wake-ups and `Woken` signals come back from their bytes as they went in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from streamsched.codec.records import signal as signal_codec
from streamsched.codec.records import wakeup as wakeup_codec
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.lateness import Late, OnLate
from streamsched.domain.fold.effect import Wake
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.signals.signal import Put, Woken
from streamsched.domain.triggers.trigger import Partitions

SCHEDULE = ScheduleRef("default", "shop", "report")
AT = datetime(2013, 1, 7, 4, tzinfo=UTC)


@pytest.mark.parametrize("at", [AT, None])
def test_a_wake_up_survives_the_wire_and_is_keyed_by_its_accumulation(at: datetime | None) -> None:
    wake = Wake(SCHEDULE, 3, "date=2013-01-07", at)

    key, value = wakeup_codec.encode(wake)

    assert key == b"default.shop.report\x1fdate=2013-01-07"
    assert wakeup_codec.decode(value) == wake


@pytest.mark.parametrize(
    ("value", "path"),
    [(b"{", "$"), (b'{"cell":1}', "$.cell"), (b'{"cell":"","schedule":"a.b.c","generation":1,"at":"soon"}', "$.at")],
)
def test_what_is_no_wake_up_is_refused_with_its_path(value: bytes, path: str) -> None:
    with pytest.raises(DecodeError) as refused:
        wakeup_codec.decode(value)

    assert refused.value.path == path


def test_what_time_says_and_a_definition_that_keeps_survive_the_wire() -> None:
    trigger = Partitions(DatasetRef("default", "flights"), 7)
    late = Late(timedelta(minutes=15), OnLate.SIDE_OUTPUT)
    for signal in (Woken(SCHEDULE, 3, "", AT), Put(SCHEDULE, 4, False, trigger, keep=True, late=late)):
        assert signal_codec.decode(*signal_codec.encode(signal)) == signal
