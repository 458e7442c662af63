"""The builder makes the same definitions as other formats, and its errors name the schedule and the field."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import streamsched
from streamsched import App, at, catch_up, cron, event, every, failures, partitions, program, stream_size
from streamsched.codec.schedules.schedule import app_from_json, app_to_json, program_from_json
from streamsched.define.units import size
from streamsched.domain.constraints.constraint import Concurrency, Delay, LastRun
from streamsched.domain.constraints.window import TimeWindow
from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.events.event import Outcome
from streamsched.domain.events.lateness import Late, OnLate
from streamsched.domain.names import AppRef, DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef
from streamsched.domain.schedules.catchup import CatchUp
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.pause import PauseAfter
from streamsched.domain.schedules.schedule import BashJob, EnqueueJob, HttpJob, Misfire, OnTimeout, PublishJob, SparkJob
from streamsched.domain.triggers.trigger import (
    AllOf,
    AnyOf,
    At,
    Cron,
    CustomEvent,
    Every,
    Partitions,
    ProgramStatus,
    StreamGrowth,
    Trigger,
)
from streamsched.testing.definitions import triggers

SHOP = AppRef("prod", "shop")


def test_http_and_publish_programs() -> None:
    app = App("shop", namespace="prod")
    app.http(
        "tell", "https://chat/hooks/{room}", method="put", headers={"X": "1"}, timeout="5s", defaults={"room": "a"}
    )
    app.publish("say", "approved", attributes={"day": "{day}"})
    app.enqueue("mail", "mail", lane="{key.customer}", after="10m", data={"day": "{day}"})

    assert [(each.ref.name, each.executable, each.arguments) for each in app.definition().programs] == [
        ("tell", HttpJob("https://chat/hooks/{room}", "PUT", {"X": "1"}, timeout=timedelta(seconds=5)), {"room": "a"}),
        ("say", PublishJob(EventName("prod", "approved"), {"day": "{day}"}), {}),
        ("mail", EnqueueJob("mail", "{key.customer}", "", timedelta(minutes=10), '{"day":"{day}"}'), {}),
    ]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda app: app.enqueue("x", "a b"), "$.programs.x.queue: must be 1 to 255 letters"),
        (lambda app: app.enqueue("x", "q", after="soon"), "$.programs.x.after: "),
        (lambda app: app.enqueue("x", "q", data={1j}), "$.programs.x.data: cannot be written as JSON"),
        (lambda app: app.http("x", "example.com"), "$.programs.x.url: must begin with http"),
        (lambda app: app.http("x", "http://h", method="PUSH"), "$.programs.x.method: must be one of GET, HEAD"),
        (lambda app: app.http("x", "http://h", timeout="0s"), "$.programs.x.timeout: "),
        (lambda app: app.publish("x", "a b"), "$.programs.x.event: dataset, stream or event name 'a b'"),
    ],
)
def test_invalid_http_and_publish_programs_are_refused(make: Callable[[App], object], why: str) -> None:
    with pytest.raises(InvalidError) as caught:
        make(App("shop"))
    assert str(caught.value).startswith(why)


def test_twelve_lines_make_an_app(tmp_path: Path) -> None:
    app = App("flights")
    join = app.spark("join", main="join.py", arguments=["--out", "{out}"])
    report = app.spark("report", main="report.py")
    app.schedule(
        "weekly-join",
        join,
        when=partitions("flights", 7) & partitions("weather", 7),
        max_concurrent=1,
        properties={"out": "/tmp/joined"},
    )
    app.schedule("weekly-report", report, when=program(join, "succeeded"))
    definition = app.definition(tmp_path)

    weekly, after = definition.schedules
    assert definition.ref == AppRef("default", "flights")
    assert definition.enabled == {"weekly-join", "weekly-report"}
    assert definition.programs[0].executable == SparkJob(str(tmp_path / "join.py"), ("--out", "{out}"))
    assert weekly.ref == ScheduleRef("default", "flights", "weekly-join")
    assert weekly.trigger == AllOf(
        (Partitions(DatasetRef("default", "flights"), 7), Partitions(DatasetRef("default", "weather"), 7))
    )
    assert weekly.constraints == (Concurrency(1, wait=True),)
    assert after.trigger == ProgramStatus(ProgramRef("default", "flights", "join"))
    assert app_from_json(app_to_json(definition)) == definition


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (partitions("flights"), Partitions(DatasetRef("prod", "flights"), 1)),
        (partitions("raw.flights", 7), Partitions(DatasetRef("raw", "flights"), 7)),
        (stream_size("clicks", "1.5kB"), StreamGrowth(StreamRef("prod", "clicks"), 1500)),
        (program("join"), ProgramStatus(ProgramRef("prod", "shop", "join"))),
        (
            program("up.app.join", "failed", "killed", times=3),
            ProgramStatus(ProgramRef("up", "app", "join"), frozenset({Outcome.FAILED, Outcome.KILLED}), 3),
        ),
        (event("arrived", times=2), CustomEvent(EventName("prod", "arrived"), 2)),
        (cron("0 4 * * *", "Europe/Berlin"), Cron("0 4 * * *", "Europe/Berlin")),
        (every("1h30m"), Every(timedelta(minutes=90))),
        (
            every(timedelta(days=1), start="2013-01-01T01:00+01:00"),
            Every(timedelta(days=1), datetime(2013, 1, 1, tzinfo=UTC)),
        ),
        (at("2013-01-08T04:00Z"), At(datetime(2013, 1, 8, 4, tzinfo=UTC))),
        (
            partitions("a") & partitions("b") & partitions("c") | event("d"),
            AnyOf(
                (
                    AllOf(tuple(Partitions(DatasetRef("prod", name)) for name in "abc")),
                    CustomEvent(EventName("prod", "d")),
                )
            ),
        ),
        (
            Partitions(DatasetRef("x", "a")) & partitions("b"),
            AllOf((Partitions(DatasetRef("x", "a")), Partitions(DatasetRef("prod", "b")))),
        ),
        (
            partitions("b") | Partitions(DatasetRef("x", "a")),
            AnyOf((Partitions(DatasetRef("prod", "b")), Partitions(DatasetRef("x", "a")))),
        ),
    ],
    ids=str,
)
def test_an_expression_builds_the_trigger(written: streamsched.TriggerExpression, meant: Trigger) -> None:
    assert written.build(SHOP) == meant


@given(triggers)
def test_a_domain_trigger_is_accepted(trigger: Trigger) -> None:
    app = App("shop")
    app.schedule("s", app.bash("p", "true"), when=trigger)
    assert app._schedules["s"].trigger == trigger


def test_constraints_and_policies_from_strings() -> None:
    app = App("shop", namespace="prod")
    app.bash("tidy", "rm -rf scratch", defaults={"days": "7"})
    app.schedule(
        "nightly",
        "tidy",
        when=cron("@daily"),
        max_concurrent=2,
        delay="5m",
        since_last_run=timedelta(hours=6),
        window=("22:00", time(6), "Europe/Berlin"),
        constraints=[Concurrency(9)],
        description="tidies",
        overlap="queue",
        misfire=Misfire.ALL,
        timeout="2h",
        on_timeout="launch",
        late=("6h", "side"),
        enabled=False,
    )
    definition = app.definition()
    (nightly,) = definition.schedules
    assert nightly.constraints == (
        Concurrency(2, wait=True),
        Delay(timedelta(minutes=5)),
        LastRun(timedelta(hours=6), wait=True),
        TimeWindow(time(22), time(6), "Europe/Berlin", wait=True),
        Concurrency(9),
    )
    assert (nightly.overlap, nightly.misfire, nightly.on_timeout) == (Overlap.QUEUE, Misfire.ALL, OnTimeout.LAUNCH)
    assert nightly.timeout == timedelta(hours=2)
    assert nightly.late == Late(timedelta(hours=6), OnLate.SIDE_OUTPUT)
    assert definition.enabled == frozenset()
    assert definition.programs[0].executable == BashJob("rm -rf scratch")
    assert definition.programs[0].arguments == {"days": "7"}


@pytest.mark.parametrize("wait", [True, False])
def test_wait_applies_to_all_constraint_parameters(wait: bool) -> None:
    app = App("shop")
    app.schedule(
        "s",
        app.bash("p", "true"),
        when=every("1h"),
        max_concurrent=1,
        since_last_run="1h",
        window=("01:00", "02:00"),
        wait=wait,
    )
    assert {constraint.wait for constraint in app.definition().schedules[0].constraints} == {wait}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"when": partitions("a", 7) & partitions("b", 0)},
            "$.schedules.s.when.count: must be at least 1 but is 0, in partitions('b', 0)",
        ),
        (
            {"when": partitions("a", "7")},  # type: ignore[arg-type]
            "$.schedules.s.when.count: must be a whole number but is '7', in partitions('a', '7')",
        ),
        (
            {"when": cron("0 0 30 2 *")},
            "$.schedules.s.when.expression: '0 0 30 2 *' never matches: no such month has that day, "
            "in cron('0 0 30 2 *', 'UTC')",
        ),
        (
            {"when": cron("0 4 * * *", "Europe/Berlni")},
            "$.schedules.s.when.zone: 'Europe/Berlni' is no IANA time zone; did you mean 'Europe/Berlin'?, "
            "in cron('0 4 * * *', 'Europe/Berlni')",
        ),
        (
            {"when": program("p", "suceeded")},
            "$.schedules.s.when.outcomes: must be one of started, succeeded, failed, killed but is 'suceeded', "
            "in program('p', 'suceeded')",
        ),
        (
            {"when": every("often")},
            "$.schedules.s.when.interval: 'often' is no duration; write numbers with units, as in 90s, 15m, 2h30m, 1d, "
            "in every('often')",
        ),
        (
            {"when": at("2013-01-08T04:00")},
            "$.schedules.s.when.moment: must name its offset from UTC, as in '2013-01-08T04:00:00Z', "
            "in at('2013-01-08T04:00')",
        ),
        (
            {"when": stream_size("s", "much")},
            "$.schedules.s.when.amount: must be a number of bytes or a text such as '64MB' but is 'much', "
            "in stream_size('s', 'much')",
        ),
        (
            {"when": "0 4 * * *"},
            "$.schedules.s.when: must be a trigger such as partitions('flights', 7) or cron('0 4 * * *') "
            "but is '0 4 * * *'",
        ),
        ({"program": "q"}, "$.schedules.s.program: 'q' is not a program of default.shop (known: p)"),
        ({"name": "taken"}, "$.schedules.taken: is defined twice"),
        (
            {"name": "a/b"},
            "$.schedules['a/b']: schedule name 'a/b' must be of printable characters but '/', in at most 255 bytes, "
            "each of which counts three times where it is not of [a-zA-Z0-9_-]",
        ),
        ({"max_concurrent": 0}, "$.schedules.s.max_concurrent: must be at least 1 but is 0"),
        ({"max_concurrent": True}, "$.schedules.s.max_concurrent: must be a whole number but is True"),
        ({"delay": "0s"}, "$.schedules.s.delay: must be positive but is 0:00:00"),
        ({"delay": 5}, "$.schedules.s.delay: must be a timedelta or a text such as '15m' but is 5"),
        ({"since_last_run": "x"}, "$.schedules.s.since_last_run: 'x' is no duration"),
        ({"window": ("22:00", "22:00")}, "$.schedules.s.window.end: must not equal the start, 22:00"),
        ({"window": ("22", "23")}, "$.schedules.s.window.start: must be a time of day such as '22:00' but is '22'"),
        ({"window": "22:00"}, "$.schedules.s.window: must be (start, end) or (start, end, zone)"),
        ({"window": ("1:00", "2:00", "UCT2")}, "$.schedules.s.window.zone: 'UCT2' is no IANA time zone"),
        ({"properties": {"n": 7}}, "$.schedules.s.properties.n: must be a text but is 7"),
        (
            {"overlap": "pile"},
            "$.schedules.s.overlap: must be one of coalesce, queue, latest, skip, cancel_running, kill_running",
        ),
        ({"misfire": "two"}, "$.schedules.s.misfire: must be one of all, one, skip but is 'two'"),
        ({"catch_up": CatchUp(spacing=timedelta(1))}, "$.schedules.s.catchUp: bounds how many ticks are made up for"),
        ({"misfire": "skip", "catch_up": CatchUp(at_most=5)}, "$.schedules.s.catchUp: says how to make up"),
        ({"timeout": "-1h"}, "$.schedules.s.timeout: '-1h' is no duration"),
        ({"late": "-1h"}, "$.schedules.s.late: '-1h' is no duration"),
        ({"late": timedelta(0)}, "$.schedules.s.late: must be at least 0:00:01 but is 0:00:00"),
        ({"late": ("1h", "keep")}, "$.schedules.s.late: must be one of accept, drop, side but is 'keep'"),
        ({"late": ("1h",)}, "$.schedules.s.late: must be a duration or a pair such as ('6h', 'side')"),
        ({"timeout": timedelta(0)}, "$.schedules.s.timeout: must be positive but is 0:00:00"),
    ],
)
def test_a_mistake_names_the_schedule_and_the_field(change: dict[str, Any], message: str) -> None:
    app = App("shop")
    app.bash("p", "true")
    app.schedule("taken", "p", when=every("1h"))
    given = {"name": "s", "program": "p", "when": every("1h")} | change
    with pytest.raises(InvalidError) as refused:
        app.schedule(given.pop("name"), given.pop("program"), **given)
    assert str(refused.value).startswith(message)
    assert [schedule.ref.name for schedule in app.definition().schedules] == ["taken"]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: App("a b"), "$.application: app name 'a b'"),
        (lambda: App("a", namespace="n-s"), "$.application: namespace name 'n-s'"),
        (lambda: App("a").bash("p", " "), "$.programs.p.command: is empty"),
        (lambda: App("a").spark("p", main=""), "$.programs.p.main: is empty"),
        (lambda: App("a").spark("p", main="x", arguments="--x"), "$.programs.p.arguments: must be a list of texts"),
        (lambda: App("a").spark("p", main="x", conf={"a": 1}), "$.programs.p.conf.a: must be a text but is 1"),  # type: ignore[reportArgumentType]  # wrong on purpose
        (lambda: App("a").spark("p/q", main="x"), "$.programs['p/q']: program name 'p/q'"),
    ],
)
def test_a_mistake_in_a_program_names_it(build: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidError) as refused:
        build()
    assert str(refused.value).startswith(message)


def test_a_trigger_needs_programs_of_its_own_app_to_be_defined() -> None:
    app = App("shop")
    app.schedule("after", app.bash("p", "true"), when=program("other.app.join") | program("gone"))
    with pytest.raises(InvalidDefinitionError, match="schedule 'after' waits for unknown program 'gone'"):
        app.definition()


def test_a_program_that_is_defined_twice_is_refused() -> None:
    app = App("shop")
    app.bash("p", "true")
    with pytest.raises(InvalidDefinitionError, match=r"^\$\.programs\.p: is defined twice$"):
        app.spark("p", main="p.py")


def test_urls_and_absolute_paths_of_main_files_are_not_changed(tmp_path: Path) -> None:
    app = App("shop")
    for name, main in (("a", "s3a://jobs/a.py"), ("b", "/srv/b.py"), ("c", "lib/../c.py")):
        app.spark(name, main=main)
    mains = [job.executable.main for job in app.definition(tmp_path).programs]  # type: ignore[union-attr]
    assert mains == ["s3a://jobs/a.py", "/srv/b.py", str(tmp_path / "c.py")]


@pytest.mark.parametrize(
    ("text", "amount"), [("1", 1), ("64MB", 64_000_000), ("64 MiB", 67_108_864), ("2k", 2000), ("1TiB", 1 << 40)]
)
def test_sizes_are_decimal_or_binary(text: str, amount: int) -> None:
    assert size(text, "$") == amount


@pytest.mark.parametrize(
    ("bounds", "path"),
    [
        ({"window": "0s"}, "$.window"),
        ({"at_most": 0}, "$.at_most"),
        ({"spacing": "x"}, "$.spacing"),
        ({"at_most": True}, "$.at_most"),
    ],
)
def test_invalid_catch_up_limits_are_refused(bounds: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidError) as refused:
        catch_up(**bounds)

    assert refused.value.path == path


def test_a_schedule_can_pause_itself_after_failures() -> None:
    app = App("app")
    load = app.bash("load", "true")
    app.schedule("plainly", load, when=every("1d"), pause_after=3)
    app.schedule("for-a-time", load, when=every("1d"), pause_after=failures(2, keep=False, lasting="1h"))

    plainly, for_a_time = app.definition().schedules

    assert plainly.pause_after == PauseAfter(3, keep=True)
    assert for_a_time.pause_after == PauseAfter(2, keep=False, lasting=timedelta(hours=1))
    with pytest.raises(InvalidError, match="must be from 1 to"):
        app.schedule("never", load, when=every("1d"), pause_after=0)


@pytest.mark.parametrize("mode", ["cluster", "Cluster", " cluster ", "", "client;cluster"])
def test_sparks_own_deploy_mode_is_refused(mode: str) -> None:
    """The program's `deploy_mode` says it; Spark's own setting would contradict it."""
    with pytest.raises(InvalidDefinitionError, match="deploy_mode") as caught:
        App("shop").spark("join", main="join.py", conf={"spark.submit.deployMode": mode})
    assert caught.value.path == '$.programs.join.conf["spark.submit.deployMode"]'

    program = {"name": "join", "type": "spark", "main": "j.py", "conf": {"spark.submit.deployMode": mode}}
    tidy = {"name": "tidy", "type": "bash", "command": "true"}
    with pytest.raises(InvalidDefinitionError, match="deploy_mode") as caught:
        app_from_json({"application": "shop", "programs": [tidy, program]})
    assert caught.value.path == '$.programs[1].conf["spark.submit.deployMode"]'


@pytest.mark.parametrize("mode", ["client", "CLIENT"])
def test_client_mode_is_accepted(mode: str) -> None:
    app = App("shop")
    app.spark("join", main="join.py", conf={"spark.submit.deployMode": mode})

    assert app_from_json(app_to_json(app.definition())) == app.definition()


def test_a_stored_program_with_cluster_mode_is_readable() -> None:
    stored = {"application": "shop", "name": "join", "type": "spark", "main": "j.py"}
    conf = {"spark.submit.deployMode": "cluster"}

    assert program_from_json({**stored, "conf": conf}).executable == SparkJob("j.py", conf=conf)
