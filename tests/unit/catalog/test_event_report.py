"""The report of an event as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from streamsched.catalog.event_report import event_report
from streamsched.domain.events.lateness import OnLate
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.pause import Pause
from streamsched.domain.schedules.schedule import Schedule, ScheduleRecord
from streamsched.domain.signals.finding import AtSchedule, Duplicate, Finding, FindingReason, NoListener, Undecodable
from streamsched.domain.signals.verdict import JudgedEvent, Verdict
from streamsched.domain.triggers.trigger import Partitions
from streamsched.store.events.event_traces import ConsumingJob, CurrentSchedule, EventTrace

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WEEK = timedelta(days=7)
WEEKLY = ScheduleRef("default", "flights", "weekly")
WANTED = Partitions(DatasetRef("default", "flights"), 7)
RECORD = ScheduleRecord(Schedule(WEEKLY, ProgramRef("default", "flights", "join"), WANTED), 1, True, NOON, NOON)
CURRENT = CurrentSchedule(RECORD)
COUNTED = AtSchedule(WEEKLY, 1, 1, JudgedEvent(Verdict.COUNTED, ("partitions:default.flights:7:distinct",)))


def trace(
    reason: FindingReason,
    *,
    job: ConsumingJob | None = None,
    current: CurrentSchedule | None = CURRENT,
    since: datetime | None = None,
    listeners: Mapping[str, Sequence[CurrentSchedule]] = {},
) -> EventTrace:
    schedules = {} if current is None else {WEEKLY: current}
    return EventTrace("e1", [Finding("e1", "test", NOON, reason, since)], [job], schedules, listeners, 0)


def sentences(found: EventTrace) -> tuple[str, ...]:
    (line,) = event_report(found, keep=WEEK).lines
    return line.text, *line.then


def test_a_counted_event_names_its_job_and_run() -> None:
    job = ConsumingJob(
        "default.flights.weekly.1.1", JobState.LAUNCHED, "", None, ("default.flights.weekly.1.1.r1",), RunState.RUNNING
    )

    found = trace(COUNTED, job=job)

    assert sentences(found) == (
        "counted in default.flights.weekly (generation 1) towards 7 new partitions of default.flights",
        "job default.flights.weekly.1.1 consumed it (LAUNCHED)",
        "run default.flights.weekly.1.1.r1 is RUNNING",
    )
    assert event_report(found, keep=WEEK).summary == "event 'e1': counted; with default.flights.weekly.1.1"


def test_a_coalesced_job_names_the_job_it_joined() -> None:
    job = ConsumingJob("j2", JobState.COALESCED, "", "j1", ("j1.r1", "j1.r2"), RunState.FAILED)

    assert sentences(trace(COUNTED, job=job))[1:] == (
        "job j2 consumed it (COALESCED, in j1)",
        "run j1.r2 is FAILED, after j1.r1",
    )


def test_an_unconsumed_event_shows_the_progress_of_the_leaves() -> None:
    progress: dict[str, Any] = {
        "children": [{"have": 3, "need": 7, "text": "flights"}, {"have": 0, "need": 1, "text": "x"}]
    }

    found = trace(COUNTED, current=replace(CURRENT, progress=progress))

    assert sentences(found)[1] == "no job consumed it yet: 3 of 7 (flights); 0 of 1 (x)"


def test_a_later_generation_that_dropped_the_event_is_named() -> None:
    later = replace(RECORD, generation=4, enabled=False, updated_at=NOON + timedelta(hours=1))

    assert (
        "generation 4 is disabled since 2026-03-01 13:00:00Z"
        in sentences(trace(COUNTED, current=CurrentSchedule(later)))[1]
    )
    kept = replace(later, kept_from=1, pause=Pause())
    assert sentences(trace(COUNTED, current=CurrentSchedule(kept)))[1].endswith("its leaf; the schedule is paused")
    assert "deleted since" in sentences(trace(COUNTED, current=CurrentSchedule(replace(later, deleted_at=NOON))))[1]
    assert "deleted since" in sentences(trace(COUNTED, current=None))[1]


def test_cells_and_an_accepted_lateness_are_reported() -> None:
    reason = AtSchedule(WEEKLY, 1, 1, JudgedEvent(Verdict.COUNTED, ("gone",), ("2013-01-01",)), OnLate.ACCEPT)

    text, *_ = sentences(trace(reason, since=NOON - timedelta(hours=2)))

    assert text.endswith("under 2013-01-01, although late: it happened at 2026-03-01 10:00:00Z, 2h before")


def test_a_refused_event_reports_the_reason_and_the_replay_command() -> None:
    refused = AtSchedule(WEEKLY, 1, 1, JudgedEvent(Verdict.REFUSED, why="2 correlation keys may be open"))

    text, then = sentences(trace(refused))

    assert text == ("refused by default.flights.weekly (generation 1), not counted: 2 correlation keys may be open")
    assert "dlq replay" in then


def test_an_event_without_a_key_says_why_it_has_none() -> None:
    why = "it has no key: hour='5am' names no hour"
    unmatched = AtSchedule(WEEKLY, 1, 1, JudgedEvent(Verdict.UNMATCHED, why=why))

    assert sentences(trace(unmatched)) == (
        f"default.flights.weekly (generation 1) listens to it, but did not count it: {why}",
    )


def test_a_counted_event_names_the_keys_dropped_for_it() -> None:
    reason = AtSchedule(
        WEEKLY, 1, 1, JudgedEvent(Verdict.COUNTED, ("gone",), ("c",), "dropped the keys open longest: 1 (a)")
    )

    assert sentences(trace(reason))[0].endswith("under c (dropped the keys open longest: 1 (a))")


def test_a_late_event_reports_the_delay_and_the_destination() -> None:
    late = AtSchedule(WEEKLY, 1, 1, JudgedEvent(Verdict.LATE), OnLate.SIDE_OUTPUT)

    assert sentences(trace(late, since=NOON - timedelta(minutes=90))) == (
        "arrived too late for default.flights.weekly (generation 1) and was appended to topic late: "
        "it happened at 2026-03-01 10:30:00Z, 1h30m before",
    )
    dropped = replace(late, late=OnLate.DROP)
    assert "was dropped" in sentences(trace(dropped, since=NOON - timedelta(minutes=90)))[0]


def test_a_duplicate_reports_the_first_time() -> None:
    text, *_ = sentences(trace(Duplicate("partition:default.flights"), since=NOON - timedelta(minutes=5)))

    assert "seen first at 2026-03-01 11:55:00Z (5m before)" in text


def test_an_event_without_listeners_names_the_current_ones() -> None:
    key = "partition:default.flights"
    off = CurrentSchedule(replace(RECORD, enabled=False))
    new = CurrentSchedule(replace(RECORD, updated_at=NOON + timedelta(hours=1)))

    text, disabled, enabled = sentences(trace(NoListener(key), listeners={key: [off, new]}))

    assert text == "no schedule listened to partition:default.flights"
    assert disabled == "default.flights.weekly would, but it is disabled since 2026-03-01 12:00:00Z"
    assert enabled == "default.flights.weekly listens to it now, since 2026-03-01 13:00:00Z"
    assert "is the name right?" in sentences(trace(NoListener(key)))[1]


def test_unmatched_and_disabled_name_the_schedule() -> None:
    unmatched = AtSchedule(WEEKLY, 1, 1, JudgedEvent(Verdict.UNMATCHED))
    assert sentences(trace(unmatched))[0].endswith(
        "leaf of its trigger matched: it wants 7 new partitions of default.flights"
    )
    off = AtSchedule(WEEKLY, 1, 1, JudgedEvent(Verdict.DISABLED))
    assert "was disabled when it arrived" in sentences(trace(off))[0]
    assert "did not exist any more" in sentences(trace(replace(off, generation=0)))[0]


def test_an_undecodable_event_reports_path_reason_and_record() -> None:
    text, then = sentences(trace(Undecodable("events/0/17", "$.data.name", "must be text")))

    assert text == "could not be decoded: $.data.name must be text"
    assert "events/0/17" in then


def test_an_unknown_event_gets_hints() -> None:
    unknown = EventTrace("e1", [], [], {}, {}, 0)

    assert event_report(unknown, keep=WEEK).summary == "nothing is known of an event 'e1'"
    assert "kept for 7d" in event_report(unknown, keep=WEEK).hints[0]
    assert event_report(unknown, keep=timedelta(0)).hints == (
        "verdicts are switched off (STREAMSCHED_VERDICTS_KEEP=0)",
    )
    assert "ask again in a moment" in event_report(replace(unknown, behind=3), keep=WEEK).hints[0]


def test_an_event_that_replaced_older_commits_names_its_job() -> None:
    reason = replace(COUNTED, judged=JudgedEvent(Verdict.REPLACED, COUNTED.judged.leaves))

    assert sentences(trace(reason, job=ConsumingJob("j2", JobState.COALESCED, "", "j1", (), None))) == (
        "replaced in default.flights.weekly (generation 1) older commits of the same partitions, already counted "
        "towards 7 new partitions of default.flights: the count stays the same, and the job gets this event instead",
        "job j2 consumed it (COALESCED, in j1)",
    )
