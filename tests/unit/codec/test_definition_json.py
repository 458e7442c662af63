"""Constraints, programs, schedules and apps as JSON."""

from __future__ import annotations

import json
from datetime import time, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.schedules import constraint as constraint_codec
from streamsched.codec.schedules import schedule as codec
from streamsched.codec.triggers import trigger as trigger_codec
from streamsched.domain.constraints.constraint import Concurrency, ConcurrencyScope, Constraint, Delay, LastRun
from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.load import Hysteresis, Load
from streamsched.domain.constraints.plugin import PlugIn
from streamsched.domain.constraints.pool import Pool
from streamsched.domain.constraints.rate import Rate, RateScope
from streamsched.domain.constraints.window import TimeWindow
from streamsched.domain.errors import InvalidError
from streamsched.domain.limits import MOST_PARTS
from streamsched.domain.names import AppRef, ProgramRef
from streamsched.domain.schedules.app import MOST_IN_APP, AppDefinition
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import Executable, Program
from streamsched.domain.time.duration import duration_text, parse_duration
from streamsched.testing.definitions import app_definitions, constraints, executables

GOLDEN = Path(__file__).parents[2] / "golden" / "cdap"
ORDERS = AppRef("default", "orders")


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def through_bytes(obj: dict[str, Any]) -> Any:
    return json.loads(json.dumps(obj))


@given(constraints)
def test_a_constraint_survives_the_way_through_json(constraint: Constraint) -> None:
    assert constraint_codec.from_json(through_bytes(constraint_codec.to_json(constraint))) == constraint


@given(executables)
def test_whatever_a_program_executes_survives_the_way_through_json(executable: Executable) -> None:
    program = Program(ProgramRef("default", "orders", "p"), executable, {})
    assert codec.program_from_json(through_bytes(codec.program_to_json(program))) == program


@given(app_definitions())
def test_an_app_and_each_part_of_it_survive_the_way_through_json(app: AppDefinition) -> None:
    assert codec.app_from_json(through_bytes(codec.app_to_json(app))) == app
    for program in app.programs:
        assert codec.program_from_json(through_bytes(codec.program_to_json(program))) == program
    for schedule in app.schedules:
        assert codec.schedule_from_json(through_bytes(codec.schedule_to_json(schedule))) == schedule


@given(st.timedeltas(timedelta(0)))
def test_a_duration_survives_the_way_through_text(duration: timedelta) -> None:
    assert parse_duration(duration_text(duration)) == duration


def test_what_cdap_answers_for_a_schedule_is_read() -> None:
    detail = golden("schedule_detail")
    schedule = codec.schedule_from_json(detail)
    assert str(schedule.trigger) == (
        "cron '0 4 * * *' in UTC and (5 new partitions of default.lines (every commit) or "
        "default.up.UpWF failed or succeeded)"
    )
    assert schedule.constraints == (
        Concurrency(3),
        Delay(timedelta(minutes=5)),
        LastRun(timedelta(hours=1)),
        TimeWindow(time(22), time(6), "America/Los_Angeles"),
    )
    assert schedule.program == ProgramRef("default", "orders", "OrderWF")

    # What we write is what CDAP wrote, but for a program's kind and version, which a trigger of ours does not know.
    del detail["trigger"]["triggers"][1]["triggers"][1]["programId"]["type"]
    del detail["trigger"]["triggers"][1]["triggers"][1]["programId"]["version"]
    assert trigger_codec.to_json(schedule.trigger) == detail["trigger"]
    assert [constraint_codec.to_json(each) for each in schedule.constraints] == detail["constraints"]


def test_cdaps_smallest_request_is_read() -> None:
    schedule = codec.schedule_from_json({"name": "nightly", **golden("minimal_create")}, app=ORDERS)
    assert (schedule.constraints, schedule.properties, schedule.timeout) == ((), {}, None)


def test_cdaps_stream_size_is_read_and_written() -> None:
    assert trigger_codec.to_json(trigger_codec.from_json(golden("stream_size"))) == golden("stream_size")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"type": "CONCURRENCY", "maxConcurrency": 2}, Concurrency(2, wait=True)),
        ({"type": "RATE", "maxRuns": 3, "per": "1h"}, Rate(3, timedelta(hours=1))),
        (
            {"type": "RATE", "maxRuns": 3, "per": "1h", "burst": 1, "group": "api", "waitUntilMet": False},
            Rate(3, timedelta(hours=1), wait=False, burst=1, of=RateScope.GROUP, group="api"),
        ),
        ({"type": "RATE", "maxRuns": 3, "per": "1h", "of": "key"}, Rate(3, timedelta(hours=1), of=RateScope.KEY)),
        ({"type": "GROUP", "group": "w", "limit": 4}, Group("w", 4)),
        ({"type": "POOL", "pool": "p", "size": 4}, Pool("p", 4)),
        ({"type": "PLUGIN", "name": "quiet", "config": {"b": 1, "a": []}}, PlugIn("quiet", '{"a":[],"b":1}')),
        ({"type": "LOAD", "cluster": "main", "running": 5}, Load("main", running=Hysteresis(5, 5))),
        (
            {"type": "LOAD", "cluster": "main", "freeCores": {"enter": 8, "leave": 4}, "startsPerReading": 2},
            Load("main", free_cores=Hysteresis(8, 4), starts=2),
        ),
        ({"type": "POOL", "pool": "p", "size": 4, "priority": -9, "waitUntilMet": False}, Pool("p", 4, -9, wait=False)),
        ({"type": "GROUP", "group": "w", "limit": 4, "weight": 2, "waitUntilMet": False}, Group("w", 4, 2, wait=False)),
        ({"type": "concurrency", "maxConcurrency": 2, "waitUntilMet": False}, Concurrency(2, wait=False)),
        (
            {"type": "CONCURRENCY", "maxConcurrency": 1, "of": "key"},
            Concurrency(1, wait=True, of=ConcurrencyScope.KEY),
        ),
        ({"type": "DELAY", "millisAfterTrigger": 1}, Delay(timedelta(milliseconds=1))),
        ({"type": "DELAY", "delay": "5m", "waitUntilMet": True}, Delay(timedelta(minutes=5))),
        ({"type": "LAST_RUN", "millisSinceLastRun": 1000}, LastRun(timedelta(seconds=1), wait=True)),
        ({"type": "last-run", "interval": "6h", "waitUntilMet": False}, LastRun(timedelta(hours=6), wait=False)),
        (
            {"type": "TIME_RANGE", "startTime": "3:17", "endTime": "04:00"},
            TimeWindow(time(3, 17), time(4), "UTC", wait=True),
        ),
        (
            {
                "type": "TIME_RANGE",
                "startTime": "22:00",
                "endTime": "6:00",
                "timeZone": "Asia/Kolkata",
                "waitUntilMet": False,
            },
            TimeWindow(time(22), time(6), "Asia/Kolkata", wait=False),
        ),
    ],
)
def test_what_is_left_out_of_a_constraint_has_its_default(written: dict[str, Any], read: Constraint) -> None:
    assert constraint_codec.from_json(written) == read


RANGE = {"type": "TIME_RANGE", "startTime": "22:00", "endTime": "06:00"}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            {"type": "WEATHER"},
            "$.type: unknown constraint type 'WEATHER' (known: CONCURRENCY, DELAY, GROUP, LAST_RUN, LOAD",
        ),
        ({"type": "CONCURRENCY"}, "$.maxConcurrency: is missing"),
        ({"type": "RATE", "maxRuns": 3}, "$.perMillis: is missing"),
        (
            {"type": "RATE", "maxRuns": 3, "per": "1h", "of": "day"},
            "$.of: must be one of program, schedule, key",
        ),
        ({"type": "LOAD", "cluster": "main"}, "$: measures nothing"),
        ({"type": "LOAD", "cluster": "m", "freeCores": {"enter": 1, "leave": 2}}, "$.freeCores: must not shut above 1"),
        ({"type": "LOAD", "cluster": "m", "freeCores": {"enter": 1, "exit": 2}}, "$.freeCores.leave: is missing"),
        ({"type": "LOAD", "cluster": "m", "running": {"enter": 2, "leave": 1}}, "$.running: must not shut below 2"),
        ({"type": "PLUGIN", "name": "quiet", "config": 1}, "$.config: must be an object"),
        ({"type": "POOL", "pool": "a b", "size": 1}, "$.pool: group name 'a b' must be one or more of"),
        (
            {"type": "POOL", "pool": "p", "size": 1, "priority": 1001},
            "$.priority: must be from -1000 to 1000",
        ),
        ({"type": "RATE", "maxRuns": 1000001, "per": "1h"}, "$.maxRuns: must be from 1 to 1000000 but is 1000001"),
        ({"type": "GROUP", "limit": 1}, "$.group: is missing"),
        ({"type": "GROUP", "group": "w", "limit": 0}, "$.limit: must be at least 1 but is 0"),
        ({"type": "GROUP", "group": "w", "limit": 2, "weight": 3}, "$.weight: must be 1 to 2, the limit, but is 3"),
        (
            {"type": "GROUP", "group": "a b", "limit": 1},
            "$.group: group name 'a b' must be one or more of [a-zA-Z0-9_.-]",
        ),
        ({"type": "CONCURRENCY", "maxConcurrency": 1, "of": "app"}, "$.of: must be one of program, schedule, key"),
        ({"type": "CONCURRENCY", "maxConcurrency": 0}, "$.maxConcurrency: must be at least 1 but is 0"),
        ({"type": "CONCURRENCY", "maxConcurrency": 1.5}, "$.maxConcurrency: must be a whole number but is 1.5"),
        (
            {"type": "CONCURRENCY", "maxConcurrency": 1, "waitUntilMet": "yes"},
            "$.waitUntilMet: must be true or false but is 'yes'",
        ),
        (
            {"type": "DELAY", "millisAfterTrigger": 1, "waitUntilMet": False},
            "$.waitUntilMet: must be true: a delay always waits",
        ),
        (
            {"type": "DELAY", "millisAfterTrigger": 10**30},
            "$.millisAfterTrigger: is longer than can be counted: 1" + "0" * 30,
        ),
        ({"type": "DELAY", "millisAfterTrigger": 1, "delay": "1s"}, "$.delay: says the duration a second time"),
        ({"type": "DELAY", "delay": "0s"}, "$.delay: must be positive but is 0:00:00"),
        (
            {"type": "LAST_RUN", "interval": "9" * 30 + "d"},
            "$.interval: '999999999999999999999999999999d' is longer than",
        ),
        ({**RANGE, "endTime": "22:00"}, "$.endTime: must not equal the start, 22:00"),
        ({**RANGE, "endTime": "24:00"}, "$.endTime: must be a time of day from 00:00 to 23:59 but is '24:00'"),
        ({**RANGE, "startTime": 1320}, "$.startTime: must be a text but is a number"),
        # Java's short names are for the CDAP routes to translate; nothing unknown is ever taken for GMT.
        ({**RANGE, "timeZone": "PST"}, "$.timeZone: 'PST' is no IANA time zone"),
        (
            {**RANGE, "zone": "UTC"},
            "$.zone: unknown field (known: calendar, endTime, startTime, timeZone, type, waitUntilMet)",
        ),
    ],
)
def test_a_refused_constraint_names_the_field(written: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidError) as refused:
        constraint_codec.from_json(written)
    assert str(refused.value).startswith(message)


APP: dict[str, Any] = {
    "application": "orders",
    "programs": [{"name": "load", "type": "bash", "command": "true"}],
    "schedules": [
        {"name": "hourly", "program": "load", "trigger": {"type": "EVERY", "interval": "1h"}, "overlap": "QUEUE"}
    ],
}


def test_what_is_left_out_of_an_app_has_its_default() -> None:
    app = codec.app_from_json(APP)
    assert app.ref == ORDERS
    assert app.enabled == {"hourly"}
    assert app.schedules[0].overlap is Overlap.QUEUE


def _changed(**fields: Any) -> dict[str, Any]:
    return {**APP, "schedules": [{**APP["schedules"][0], **fields}]}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({**APP, "application": "a.b"}, "$.application: app name 'a.b' must be one or more of"),
        (
            {**APP, "programs": []},
            "$.schedules[0].program: schedule 'hourly' starts unknown program 'load' (known: none)",
        ),
        ({**APP, "programs": APP["programs"] * 2}, "$.programs[1]: 'load' is defined twice"),
        (
            {**APP, "programs": [*APP["programs"], {"name": "load", "type": "http", "url": "http://h/"}]},
            "$.programs[1]: 'load' is defined twice",
        ),
        ({**APP, "progams": []}, "$.progams: unknown field"),
        ({**APP, "programs": [{"name": "x", "type": "spark"}]}, "$.programs[0].main: is missing"),
        (
            {**APP, "programs": [{"name": "x", "type": "http", "url": "ftp://h"}]},
            "$.programs[0].url: must begin with http:// or https:// but is 'ftp://h'",
        ),
        (
            {**APP, "programs": [{"name": "x", "type": "http", "url": "http://h", "method": "get", "body": "x"}]},
            "$.programs[0].body: is not sent by method GET",
        ),
        (
            {**APP, "programs": [{"name": "x", "type": "http", "url": "http://h", "timeout": "soon"}]},
            "$.programs[0].timeout: ",
        ),
        (
            {**APP, "programs": [{"name": "x", "type": "publish", "event": "a b"}]},
            "$.programs[0].event: dataset, stream or event name 'a b'",
        ),
        ({**APP, "programs": [{"name": "x", "type": "jar"}]}, "$.programs[0].type: unknown program type 'jar'"),
        (
            {**APP, "programs": [{"name": "x", "type": "spark", "main": "x.py", "arguments": ["--n", 7]}]},
            "$.programs[0].arguments[1]: must be a text but is a number",
        ),
        (_changed(trigger=None), "$.schedules[0].trigger: is missing"),
        (
            _changed(trigger={"type": "TIME", "cronExpression": "0 0 30 2 *"}),
            "$.schedules[0].trigger.cronExpression: '0 0 30 2 *' never matches",
        ),
        (
            _changed(trigger={"type": "TIME", "cronExpression": "* * * * *", "timeZone": "Mars"}),
            "$.schedules[0].trigger.timeZone: 'Mars' is no IANA time zone",
        ),
        (_changed(program="other.app.load"), "$.schedules[0].program: program name 'other.app.load'"),
        (
            _changed(application="else"),
            "$.schedules[0].application: is default.else, but this belongs to default.orders",
        ),
        (_changed(timeout="0s"), "$.schedules[0].timeout: must be positive but is 0:00:00"),
        (_changed(misfire="never"), "$.schedules[0].misfire: must be one of all, one, skip but is 'never'"),
        (_changed(catchUp="1h"), "$.schedules[0].catchUp: must be an object but is a text"),
        (_changed(catchUp={"window": "0s"}), "$.schedules[0].catchUp.window: must be positive"),
        (_changed(catchUp={"atMost": 0}), "$.schedules[0].catchUp.atMost: must be from 1 to 10000 but is 0"),
        (_changed(catchUp={"spacing": "soon"}), "$.schedules[0].catchUp.spacing: 'soon' is no duration"),
        (_changed(catchUp={"most": 1}), "$.schedules[0].catchUp.most: unknown field"),
        (_changed(properties={"n": 7}), "$.schedules[0].properties.n: must be a text but is a number"),
        (_changed(constraints=[{"type": "CONCURRENCY"}]), "$.schedules[0].constraints[0].maxConcurrency: is missing"),
        (
            _changed(name=["hourly"]) | {"tasks": {"load": {"job_id": "{day}"}}},
            "$.schedules[0].name: must be a text but is a list",
        ),
        (_changed(enabled=1), "$.schedules[0].enabled: must be true or false but is 1"),
    ],
)
def test_a_refused_app_names_the_field(written: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidError) as refused:
        codec.app_from_json(written)
    assert str(refused.value).startswith(message)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_TYPES = ["TIME", "EVERY", "AT", "PARTITION", "STREAM_SIZE", "PROGRAM_STATUS", "EVENT", "AND", "OR"]
_FIELDS = [
    *("cronExpression", "timeZone", "interval", "start", "instant", "dataset", "numPartitions", "streamId", "bytes"),
    *("triggerMB", "programId", "programStatuses", "times", "event", "triggers"),
]


@given(st.fixed_dictionaries({"type": st.sampled_from(_TYPES)}, optional=dict.fromkeys(_FIELDS, _json)))
def test_whatever_is_written_reads_as_a_trigger_or_is_refused_with_a_path(written: dict[str, Any]) -> None:
    try:
        trigger = trigger_codec.from_json(written)
    except InvalidError as exc:
        refused = exc
    else:
        assert trigger_codec.from_json(trigger_codec.to_json(trigger)) == trigger
        return
    assert refused.path.startswith("$")
    assert refused.reason


def test_how_missed_ticks_are_made_up_for_is_said_only_where_it_is_not_the_default() -> None:
    plain = codec.app_to_json(codec.app_from_json(APP))["schedules"][0]
    assert "catchUp" not in plain

    bounded = codec.app_to_json(codec.app_from_json(_changed(misfire="all", catchUp={"window": "90m"})))["schedules"][0]
    assert bounded["catchUp"] == {"window": "1h30m", "atMost": 100, "spacing": "0s"}


@pytest.mark.parametrize("member", MOST_IN_APP)
@pytest.mark.parametrize("by_name", [False, True])
def test_an_app_of_too_many_parts_is_refused_before_one_is_read(member: str, by_name: bool) -> None:
    number = MOST_IN_APP[member] + 1
    parts = dict.fromkeys(map(str, range(number))) if by_name else [None] * number
    with pytest.raises(InvalidError, match=rf"\$\.{member}: must have at most {number - 1} {member} but has {number}"):
        codec.app_from_json({"application": "orders", member: parts})


def test_a_definition_has_at_most_a_thousand_arguments() -> None:
    many = {f"a{number}": "" for number in range(MOST_PARTS + 1)}
    program = {"name": "p", "type": "http", "url": "https://x.org"}
    schedule = {"name": "s", "program": "p", "trigger": {"type": "PARTITION", "dataset": "d", "numPartitions": 1}}
    with pytest.raises(InvalidError, match=r"\$\.programs\[0\].defaults: must have at most 1000 arguments"):
        codec.app_from_json({"application": "orders", "programs": [{**program, "defaults": many}]})
    with pytest.raises(InvalidError, match=r"\$\.schedules\[0\].properties: must have at most 1000 properties"):
        codec.app_from_json(
            {"application": "orders", "programs": [program], "schedules": [{**schedule, "properties": many}]}
        )
