"""What became of an event, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from streamsched.catalog.account import account
from streamsched.domain.finding import AtSchedule, Finding, Ground, Repeated, Unheard, Unread
from streamsched.domain.job import JobState
from streamsched.domain.lateness import OnLate
from streamsched.domain.names import DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.pause import Pause
from streamsched.domain.run import RunState
from streamsched.domain.schedule import Schedule
from streamsched.domain.trigger import Partitions
from streamsched.domain.verdict import Judged, Verdict
from streamsched.ports.catalog import ScheduleRecord
from streamsched.ports.verdicts import Standing, Taker, Trail

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WEEK = timedelta(days=7)
WEEKLY = ScheduleRef("default", "flights", "weekly")
WANTED = Partitions(DatasetRef("default", "flights"), 7)
RECORD = ScheduleRecord(Schedule(WEEKLY, ProgramRef("default", "flights", "join"), WANTED), 1, True, NOON, NOON)
STANDING = Standing(RECORD)
COUNTED = AtSchedule(WEEKLY, 1, 1, Judged(Verdict.COUNTED, ("partitions:default.flights:7",)))


def trail(
    ground: Ground,
    *,
    taker: Taker | None = None,
    standing: Standing | None = STANDING,
    since: datetime | None = None,
    listeners: Mapping[str, Sequence[Standing]] = {},
) -> Trail:
    standings = {} if standing is None else {WEEKLY: standing}
    return Trail("e1", [Finding("e1", "test", NOON, ground, since)], [taker], standings, listeners, 0)


def told(known: Trail) -> tuple[str, ...]:
    (line,) = account(known, keep=WEEK).lines
    return line.text, *line.then


def test_a_counted_event_says_which_job_took_it_and_its_run() -> None:
    taker = Taker(
        "default.flights.weekly.1.1", JobState.LAUNCHED, "", None, ("default.flights.weekly.1.1.r1",), RunState.RUNNING
    )

    known = trail(COUNTED, taker=taker)

    assert told(known) == (
        "counted in default.flights.weekly (generation 1) towards 7 new partitions of default.flights",
        "job default.flights.weekly.1.1 took it (LAUNCHED)",
        "run default.flights.weekly.1.1.r1 is RUNNING",
    )
    assert account(known, keep=WEEK).summary == "event 'e1': counted; with default.flights.weekly.1.1"


def test_a_job_that_joined_another_leads_to_it() -> None:
    taker = Taker("j2", JobState.COALESCED, "", "j1", ("j1.r1", "j1.r2"), RunState.FAILED)

    assert told(trail(COUNTED, taker=taker))[1:] == (
        "job j2 took it (COALESCED, in j1)",
        "run j1.r2 is FAILED, after j1.r1",
    )


def test_what_no_job_has_yet_says_what_it_still_waits_for() -> None:
    progress: dict[str, Any] = {
        "children": [{"have": 3, "need": 7, "text": "flights"}, {"have": 0, "need": 1, "text": "x"}]
    }

    known = trail(COUNTED, standing=replace(STANDING, progress=progress))

    assert told(known)[1] == "no job took it yet: 3 of 7 (flights); 0 of 1 (x)"


def test_a_change_since_says_that_what_had_come_may_be_gone() -> None:
    later = replace(RECORD, generation=4, enabled=False, updated_at=NOON + timedelta(hours=1))

    assert "generation 4 is disabled since 2026-03-01 13:00:00Z" in told(trail(COUNTED, standing=Standing(later)))[1]
    kept = replace(later, kept_from=1, pause=Pause(keep=True))
    assert told(trail(COUNTED, standing=Standing(kept)))[1].endswith("its leaf; the schedule is paused")
    assert "deleted since" in told(trail(COUNTED, standing=Standing(replace(later, deleted_at=NOON))))[1]
    assert "deleted since" in told(trail(COUNTED, standing=None))[1]


def test_cells_and_an_accepted_lateness_are_told() -> None:
    ground = AtSchedule(WEEKLY, 1, 1, Judged(Verdict.COUNTED, ("gone",), ("2013-01-01",)), OnLate.ACCEPT)

    text, *_ = told(trail(ground, since=NOON - timedelta(hours=2)))

    assert text.endswith("under 2013-01-01, though it came late: it happened at 2026-03-01 10:00:00Z, 2h before")


def test_a_late_event_says_how_late_and_where_it_went() -> None:
    late = AtSchedule(WEEKLY, 1, 1, Judged(Verdict.LATE), OnLate.SIDE)

    assert told(trail(late, since=NOON - timedelta(minutes=90))) == (
        "came too late for default.flights.weekly (generation 1) and was put aside on topic late: "
        "it happened at 2026-03-01 10:30:00Z, 1h30m before",
    )
    dropped = replace(late, late=OnLate.DROP)
    assert "was dropped" in told(trail(dropped, since=NOON - timedelta(minutes=90)))[0]


def test_a_repeat_says_of_what() -> None:
    text, *_ = told(trail(Repeated("partition:default.flights"), since=NOON - timedelta(minutes=5)))

    assert "seen first at 2026-03-01 11:55:00Z (5m before)" in text


def test_an_event_nobody_heard_names_who_would_have() -> None:
    key = "partition:default.flights"
    off = Standing(replace(RECORD, enabled=False))
    new = Standing(replace(RECORD, updated_at=NOON + timedelta(hours=1)))

    text, disabled, enabled = told(trail(Unheard(key), listeners={key: [off, new]}))

    assert text == "no schedule listened to partition:default.flights"
    assert disabled == "default.flights.weekly would, but it is disabled since 2026-03-01 12:00:00Z"
    assert enabled == "default.flights.weekly listens to it now, since 2026-03-01 13:00:00Z"
    assert "is the name right?" in told(trail(Unheard(key)))[1]


def test_unmatched_and_disabled_name_the_schedule() -> None:
    unmatched = AtSchedule(WEEKLY, 1, 1, Judged(Verdict.UNMATCHED))
    assert told(trail(unmatched))[0].endswith("accepted it: it wants 7 new partitions of default.flights")
    off = AtSchedule(WEEKLY, 1, 1, Judged(Verdict.DISABLED))
    assert "was disabled when it came" in told(trail(off))[0]
    assert "was not there any more" in told(trail(replace(off, generation=0)))[0]


def test_a_dead_letter_says_what_is_wrong_where() -> None:
    text, then = told(trail(Unread("events/0/17", "$.data.name", "must be text")))

    assert text == "could not be read: $.data.name must be text"
    assert "events/0/17" in then


def test_silence_says_what_it_may_mean() -> None:
    never = Trail("e1", [], [], {}, {}, 0)

    assert account(never, keep=WEEK).summary == "nothing is known of an event 'e1'"
    assert "kept for 7d" in account(never, keep=WEEK).hints[0]
    assert account(never, keep=timedelta(0)).hints == ("verdicts are switched off (STREAMSCHED_VERDICTS_KEEP=0)",)
    assert "ask again in a moment" in account(replace(never, behind=3), keep=WEEK).hints[0]
