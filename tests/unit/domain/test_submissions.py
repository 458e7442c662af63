"""Submissions: ids, keys by their columns, the limits of a program, and whose argument counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.backfills.request import MOST_ITEMS
from streamsched.domain.constraints.constraint import Concurrency, ConcurrencyScope, Constraint, Delay
from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.pool import Pool
from streamsched.domain.constraints.rate import Rate, RateScope
from streamsched.domain.decisions.decision import overlap_of
from streamsched.domain.errors import InvalidError
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.jobs.run import file_name, run_id, stands_for_long_id
from streamsched.domain.jobs.submission import backfill_id, backfill_job_id, rerun_job_id, submitted_job_id
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.arguments import LONGEST_VALUE, arguments
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.program_limits import limits_of_program
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.domain.schedules.submission_request import RerunRequest, SubmissionRequest
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.composite import AllOf
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.named_key import named_key
from streamsched.domain.triggers.trigger import CustomEvent, Trigger
from streamsched.spark.files import RunFiles

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PROGRAM = ProgramRef("default", "app", "load")
REF = ScheduleRef("default", "app", "nightly")
GO = CustomEvent(EventName("default", "go"))
STOCK = CustomEvent(EventName("default", "stock"))


def test_the_id_is_made_of_the_key_or_of_its_digest() -> None:
    assert submitted_job_id(REF, "a-1_Z") == "default.app.nightly.submitted-a-1_Z"
    odd = [submitted_job_id(REF, key) for key in ("a/b", "é", "x" * 65, "a b", "../..", "x\0")]
    assert len({*odd}) == len(odd)
    assert all(len(each) == len("default.app.nightly.submitted-") + 32 for each in odd)
    assert all("/" not in each and each.isprintable() and each.isascii() for each in odd)


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_has_bounds(key: str) -> None:
    with pytest.raises(InvalidError, match="1 to 255 characters"):
        submitted_job_id(REF, key)


@pytest.mark.parametrize(
    ("trigger", "columns", "key"),
    [
        (GO, {}, ""),
        (Per(GO, ("date",)), {"date": "2013-01-01"}, "2013-01-01"),
        (Per(GO, ("region", "date")), {"date": "2013-01-01", "region": "EU/x"}, "EU%2Fx/2013-01-01"),
        (Per(GO, ("hour",), Grain.HOUR, rolled_up_to=Grain.DAY), {"hour": "2013-01-01T05"}, "2013-01-01"),
        (
            AllOf((Per(GO, ("hour",), Grain.HOUR, rolled_up_to=Grain.DAY), Per(STOCK, ("date",)))),
            {"date": "2013-01-01"},
            "2013-01-01",
        ),
    ],
)
def test_columns_name_the_key_that_an_event_with_them_has(trigger: Trigger, columns: dict[str, str], key: str) -> None:
    assert named_key(trigger, columns) == key


@pytest.mark.parametrize(
    ("trigger", "columns", "said"),
    [
        (GO, {"date": "x"}, "$.key: is given, but the schedule's trigger has no key: it has no `per`"),
        (Per(GO, ("date",)), {}, "$.key: is missing: the schedule has one accumulation for each date"),
        (Per(GO, ("date",)), {"day": "x"}, "$.key: names day, but the schedule's key is date"),
        (Per(GO, ("date",)), {"date": "x", "day": "x"}, "$.key: names date and day, but the schedule's key is date"),
        (Per(GO, ("a", "b")), {"a": "x"}, "$.key: names a, but the schedule's key is a and b"),
        (Per(GO, ("date",)), {"date": ""}, "$.key: is none: date is empty"),
        (
            Per(GO, ("hour",), Grain.HOUR),
            {"hour": "2013-01-01"},
            "$.key: is none: hour='2013-01-01' names no hour: it names a day",
        ),
        (
            Per(GO, ("date",), Grain.DAY, fanned_out_to=Grain.HOUR),
            {"date": "2013-01-01"},
            "$.key: date='2013-01-01' is 24 keys, 2013-01-01T00 to 2013-01-01T23; name one by another column",
        ),
    ],
)
def test_columns_that_are_not_the_key_are_refused(trigger: Trigger, columns: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidError) as refused:
        named_key(trigger, columns)
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"arguments": {f"n{n}": "v" for n in range(1001)}}, "$.arguments"),
        ({"arguments": {"n": "v" * (LONGEST_VALUE + 1)}}, "$.arguments.n"),
        ({"arguments": {"n" * 256: "v"}}, "$.arguments"),
        ({"arguments": {"n": "a\0"}}, "$.arguments.n"),
        ({"columns": {"date": "a\0"}}, "$.key.date"),
        ({"reason": "r" * 1001}, "$.reason"),
        ({"reason": "\0"}, "$.reason"),
    ],
)
def test_what_a_request_holds_is_bounded(fields: dict[str, object], path: str) -> None:
    with pytest.raises(InvalidError) as refused:
        SubmissionRequest(REF, "t", **fields)  # type: ignore[arg-type]
    assert refused.value.path == path


def test_a_program_has_no_key() -> None:
    with pytest.raises(InvalidError, match=r"\$\.key: is for a schedule"):
        SubmissionRequest(PROGRAM, "t", columns={"date": "x"})


def limited(name: str, *constraints: Constraint) -> Schedule:
    return Schedule(ScheduleRef("default", "app", name), PROGRAM, GO, constraints)


def test_a_program_alone_waits_for_the_strictest_of_what_its_schedules_share() -> None:
    minute = timedelta(minutes=1)
    limits = limits_of_program(
        PROGRAM,
        [
            limited("a", Concurrency(3), Group("g", 5, 1, wait=False), Pool("p", 4, 9), Delay(minute)),
            limited("b", Concurrency(2), Group("g", 5, 2), Pool("p", 2, -9), Rate(1, minute, of=RateScope.SCHEDULE)),
            limited("c", Rate(5, minute, wait=False), Concurrency(1, of=ConcurrencyScope.KEY)),
            limited("d", Concurrency(1, of=ConcurrencyScope.SCHEDULE)),
        ],
    )

    assert limits.constraints == (
        Concurrency(2, wait=True),
        Group("g", 5, 2, wait=True),
        Pool("p", 2, 0, wait=True),
        Rate(5, minute, wait=True),
    )
    assert (limits.overlap, limits.timeout, limits.properties) == (Overlap.QUEUE, None, {})
    assert limits_of_program(PROGRAM, []).constraints == ()


def test_a_program_in_two_pools_needs_a_schedule() -> None:
    with pytest.raises(InvalidError, match="has schedules in the pools p and q: name the schedule"):
        limits_of_program(PROGRAM, [limited("a", Pool("q", 1)), limited("b", Pool("p", 1))])


def test_a_persons_argument_overrides_properties_and_defaults() -> None:
    program = Program(PROGRAM, BashJob("true"), {"a": "program", "b": "program", "c": "program"})
    schedule = Schedule(REF, PROGRAM, GO, properties={"b": "schedule", "c": "schedule"})
    request = SubmissionRequest(REF, "t", {"c": "person", "d": "person"}, reason="ann: again")

    given = arguments(program, schedule, request.satisfaction(schedule, generation=3, sequence=7, now=NOW))

    assert {name: given[name] for name in "abcd"} == {"a": "program", "b": "schedule", "c": "person", "d": "person"}
    assert given["trigger.job"] == "default.app.nightly.submitted-t"
    alone = SubmissionRequest(PROGRAM, "t").satisfaction(None, generation=0, sequence=0, now=NOW)
    assert "trigger.schedule" not in arguments(program, schedule, alone)


@given(st.lists(st.text(min_size=1, max_size=255), min_size=1, max_size=12))
def test_ids_of_a_long_chain_of_reruns_are_bounded_and_begin_with_the_first_job(keys: list[str]) -> None:
    first = job = submitted_job_id(REF, "first")
    seen = {job}
    for key in keys:
        job = rerun_job_id(job, key)
        seen.add(job)
        assert job.startswith(f"{first}.rerun-")
        assert len(job) <= 180
    assert len(seen) == len(keys) + 1


def test_a_rerun_has_the_facts_of_the_first_job_of_its_chain() -> None:
    program = Program(PROGRAM, BashJob("true"))
    schedule = Schedule(REF, PROGRAM, GO)
    first = ReadyJob(REF, 1, 7, NOW, (), "monday")
    hour = timedelta(hours=1)

    again = RerunRequest(first.id, arguments={"a": "1", "b": "1"}).satisfaction(
        first, f"{first.id}.r2", 2, generation=3, sequence=9, now=NOW + hour
    )
    twice = RerunRequest(again.id, token="x", arguments={"b": "2"}, muted=True).satisfaction(
        again, f"{again.id}.r1", 1, generation=3, sequence=9, now=NOW + 2 * hour
    )

    assert (again.id, twice.id) == (f"{first.id}.rerun-2", f"{first.id}.rerun-2.rerun-x")
    given = [arguments(program, schedule, each) for each in (first, again, twice)]
    for fact in ("logical.start.time", "trigger.satisfied_at", "trigger.key", "trigger.schedule"):
        assert len({each[fact] for each in given}) == 1
    assert (given[2]["a"], given[2]["b"], twice.satisfied_at) == ("1", "2", NOW + 2 * hour)
    assert twice.submission is not None
    assert twice.submission.origin == f"by hand, a rerun of {again.id}.r1, muted"
    assert (twice.is_by_person, overlap_of(schedule, twice)) == (False, Overlap.QUEUE)


@pytest.mark.parametrize("length", [1, 40, 170, 255])
@pytest.mark.parametrize("key", ["k", "k" * 64, "k" * 255, "ü" * 255])
def test_files_of_runs_have_names_whatever_schedule_and_key_are_called(length: int, key: str) -> None:
    schedule = ScheduleRef("n" * length, "a" * length, "s" * length)
    jobs = [submitted_job_id(schedule, key), backfill_job_id(backfill_id(schedule, key), MOST_ITEMS)]
    jobs += [rerun_job_id(each, key) for each in jobs]
    runs = [run_id(job, attempt) for job in jobs for attempt in (1, 2, 99)]

    assert len({file_name(run) for run in runs}) == len(set(runs))
    for run in runs:
        name = file_name(run)
        assert file_name(name) == name
        assert stands_for_long_id(name) == (name != run)
        assert all(len(path.name) <= 255 for path in RunFiles(Path("/data"), run).all), run
