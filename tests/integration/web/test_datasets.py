"""A dataset by its route and on its page: both say the same, of what was really folded, and nothing of strangers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import date, timedelta
from html import unescape
from typing import Any

import pytest

from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.roles.services import Services
from tests.integration.web.conftest import LogIn
from tests.integration.web.dataset_world import DAY, HOURS, DatasetWorld, app, hours, rolled_up
from tests.support.described_answers import undescribed

pytestmark = pytest.mark.postgres

HOSTILE = "\"'><script>alert(1)</script>"


@pytest.fixture
async def world(services: Services, log_in: LogIn) -> AsyncIterator[DatasetWorld]:
    async with DatasetWorld.at_work(services, await log_in()) as made:
        yield made


async def page_of(world: DatasetWorld, name: str = "default.clicks") -> str:
    answer = await world.browser.get(f"/ui/datasets/{name}")
    assert answer.status_code == 200, answer.text
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


async def test_a_day_names_the_hours_that_are_missing_late_and_rewritten(world: DatasetWorld) -> None:
    await world.deploy(app(rolled_up(), "daily", late={"after": "1h", "then": "accept"}))
    await world.commit("clicks", *hours(DAY, [each for each in HOURS if each != "06"]))
    await world.commit("clicks", f"day={DAY}/hour=06", age=timedelta(hours=2))
    await world.commit("clicks", *hours(DAY, ["05", "05"]))
    await world.settled()

    found = await world.dataset()
    (roll_up,) = found["rollUps"]
    assert (roll_up["schedule"], roll_up["zone"]) == ("default.traffic.daily", "Europe/Berlin")
    assert roll_up["keys"] == [
        {
            "key": DAY,
            "complete": False,
            "expected": 23,
            "present": 22,
            "needed": 23,
            "missing": f"{DAY}T23",
            "missingCount": 1,
            "missingPeriods": [f"{DAY}T23"],
            "late": [f"{DAY}T06"],
            "lateCount": 1,
            "rewritten": [f"{DAY}T05"],
            "rewrittenCount": 1,
        }
    ]
    commits = {each["partition"]: each for each in found["partitions"]}
    assert len(found["partitions"]) == len(commits) == 22
    assert {name: each["rewritten"] for name, each in commits.items() if each["rewritten"]} == {f"day={DAY}/hour=05": 2}
    assert [name for name, each in commits.items() if each["late"]] == [f"day={DAY}/hour=06"]
    assert found["partitions"][0]["event"] == "e24"
    assert found["sources"] == [{"source": "etl", "events": 24}]
    assert (found["completeness"], found["searchedAll"]) == ("incomplete", True)
    assert found["schedules"] == [{"schedule": "default.traffic.daily", "state": "enabled", "openKeys": 1}]
    shown = await page_of(world)
    assert f"daily {DAY} has 22 of 23, missing {DAY}T23, late {DAY}T06, rewritten {DAY}T05" in shown
    assert "hour=05 rewritten" in shown
    assert "hour=06 late" in shown

    fewer = await world.dataset(limit=5)
    assert (len(fewer["partitions"]), fewer["morePartitions"]) == (5, 17)
    shallow = await world.dataset(depth=1)
    assert (shallow["searched"], shallow["searchedAll"]) == (2, False), "one of each topic that may have it"

    await world.commit("clicks", f"day={DAY}/hour=23")
    await world.settled()
    found = await world.dataset()
    assert (found["rollUps"][0]["keys"], found["completeness"]) == ([], "as expected")


async def test_a_late_hour_that_is_dropped_is_missing_and_late(world: DatasetWorld) -> None:
    await world.deploy(app(rolled_up(), "daily", late={"after": "1h", "then": "drop"}))
    await world.commit("clicks", *hours(DAY, ["00", "01"]))
    await world.commit("clicks", f"day={DAY}/hour=03", age=timedelta(hours=2))
    await world.settled()
    ((key,), *_) = [each["keys"] for each in (await world.dataset())["rollUps"]]
    assert (key["present"], key["late"], key["missingPeriods"][0]) == (2, [f"{DAY}T03"], f"{DAY}T03")


async def test_a_day_is_whole_when_enough_of_it_came_while_the_other_side_is_waited_for(world: DatasetWorld) -> None:
    prices = {"type": "PARTITION", "dataset": "prices", "numPartitions": 1}
    other = {"type": "PER", "trigger": prices, "by": ["date"], "grain": "day"}
    await world.deploy(app({"type": "AND", "triggers": [rolled_up(of=2), other]}, "daily"))
    await world.commit("clicks", *hours(DAY, ["00", "01"]))
    await world.commit("prices", "date=2026-03-30")
    await world.settled()
    found = await world.dataset()
    keys = {each["key"]: each for each in found["rollUps"][0]["keys"]}
    assert {name: (each["complete"], each["present"], each["needed"]) for name, each in keys.items()} == {
        DAY: (True, 2, 2),
        "2026-03-30": (False, 0, 2),
    }
    assert keys[DAY]["expected"] == 23
    assert found["completeness"] == "incomplete"
    assert (await world.dataset("default/prices"))["completeness"] == "no expectation"


async def test_what_nothing_speaks_of_is_never_complete(world: DatasetWorld) -> None:
    plain = {"type": "PARTITION", "dataset": "clicks", "numPartitions": 7}
    await world.deploy(app(plain, "weekly"))
    await world.commit("clicks", *hours(DAY, HOURS))
    await world.settled()
    found = await world.dataset()
    assert (found["completeness"], found["rollUps"], found["expectations"]) == ("no expectation", [], [])
    assert "No expectation" in await page_of(world)
    unknown = await world.dataset("default/nobody-knows-it")
    assert (unknown["completeness"], unknown["partitions"], unknown["schedules"]) == ("no expectation", [], [])

    await world.deploy({**app(plain, "weekly"), "expectations": [{"dataset": "clicks", "by": "08:00"}]})
    found = await world.dataset()
    ((expected),) = found["expectations"]
    assert (expected["id"], expected["state"], expected["missingSince"]) == ("default.traffic.clicks", "met", None)
    assert found["completeness"] == "as expected"
    for number in (2, 5, 3):
        await world.services.pool.execute(
            "INSERT INTO expectation_misses VALUES ($1, $2, '2026-01-01', 'k', 'r', now(), true, true)",
            "default.traffic.clicks",
            world.services.clock.now() - timedelta(days=number),
        )
    await world.services.pool.execute("UPDATE expectations SET open_misses = 3")
    found = await world.dataset()
    assert (found["completeness"], found["expectations"][0]["state"]) == ("incomplete", "missing")
    assert found["expectations"][0]["missingSince"].startswith(
        (world.services.clock.now() - timedelta(days=5)).date().isoformat()
    )


async def test_only_what_the_caller_may_view_is_named_and_the_rest_is_counted(
    world: DatasetWorld, log_in: LogIn
) -> None:
    await world.deploy(app(rolled_up("default.clicks"), *(f"s{number:02}" for number in range(22))))
    secret = app(rolled_up("default.clicks"), "hidden", late={"after": "1h", "then": "accept"})
    await world.deploy({**secret, "expectations": [{"dataset": "default.clicks", "by": "1:00"}]}, "finance/secret")
    await world.commit("clicks", f"day={DAY}/hour=00", age=timedelta(hours=2))
    await world.settled()
    viewer = await log_in(Grant(role=AccessRole.VIEWER, namespace="default"))
    found = await world.dataset(browser=viewer)
    assert (len(found["schedules"]), found["moreSchedules"], found["otherSchedules"]) == (20, 2, 1)
    assert "finance" not in str(found)
    assert found["expectations"] == []
    assert found["partitions"][0]["late"] is False, "it was late for a schedule that is not shown"
    everything = await world.dataset()
    assert (everything["otherSchedules"], everything["moreSchedules"]) == (0, 3)
    assert [each["id"] for each in everything["expectations"]] == ["finance.secret.clicks"]

    stranger = await log_in(Grant(role=AccessRole.VIEWER, namespace="sales"))
    for name in ("default/clicks", "default/none"):
        answer = await stranger.http.get(f"/v1/datasets/{name}", headers=stranger.authorization)
        assert (answer.status_code, "s00" in answer.text) == (403, False), answer.text
    assert (await stranger.get("/ui/datasets/default.clicks")).status_code == 403
    assert (await world.browser.http.get("/v1/datasets/default/clicks")).status_code == 401


async def test_open_keys_are_bounded_and_the_newest_are_shown(world: DatasetWorld) -> None:
    await world.deploy(app(rolled_up(), "daily"))
    await world.commit("clicks", *(f"day=2026-03-{day:02}/hour=00" for day in range(1, 13)))
    await world.settled()
    (roll_up,) = (await world.dataset())["rollUps"]
    assert [each["key"] for each in roll_up["keys"]] == [f"2026-03-{day:02}" for day in range(8, 13)]
    assert roll_up["moreKeys"] == 7
    assert roll_up["keys"][0]["missing"] == "2026-03-08T01 to 2026-03-08T23"
    assert len(roll_up["keys"][0]["missingPeriods"]) == 23


async def test_the_newest_of_many_open_keys_are_shown(world: DatasetWorld) -> None:
    await world.deploy(app(rolled_up(), "daily"))
    days = [date(2026, 1, 1) + number * timedelta(days=1) for number in range(203)]
    await world.commit_at_once("clicks", [f"day={day}/hour=00" for day in days])
    await world.settled()
    (roll_up,) = (await world.dataset())["rollUps"]
    assert [each["key"] for each in roll_up["keys"]] == [str(day) for day in days[-5:]]
    assert roll_up["moreKeys"] == 198


async def test_an_open_day_names_its_late_hours_however_much_came_since(world: DatasetWorld) -> None:
    late = {"after": "1h", "then": "accept"}
    await world.deploy(app(rolled_up(), "daily", late=late))
    await world.commit("clicks", f"day={DAY}/hour=06", age=timedelta(hours=2))
    await world.commit_at_once("clicks", [f"day={DAY}/hour=07"] * 600)
    await world.settled()
    for depth in (2_000, 300):
        ((key,), *_) = [each["keys"] for each in (await world.dataset(depth=depth))["rollUps"]]
        assert (key["present"], key["late"]) == (2, [f"{DAY}T06"])


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("default/a b", 400),
        ("default/%3Cscript%3E", 400),
        ("default/x%00y", 400),
        ("default/%F0%9F%92%A3", 400),
        ("default/" + "n" * 5000, 200),
    ],
)
async def test_hostile_names_are_refused_and_no_name_is_too_long(world: DatasetWorld, name: str, status: int) -> None:
    answer = await world.browser.http.get(f"/v1/datasets/{name}", headers=world.browser.authorization)
    assert answer.status_code == status, answer.text
    assert undescribed(answer) is None
    for query in ("depth=0", "depth=100001", "limit=0", "limit=1001", "depth=x"):
        answer = await world.browser.http.get(
            f"/v1/datasets/default/clicks?{query}", headers=world.browser.authorization
        )
        assert answer.status_code == 400, query


async def test_hostile_partitions_and_sources_are_values(world: DatasetWorld) -> None:
    await world.deploy(app(rolled_up(), "daily"))
    events: list[dict[str, Any]] = [
        {"partition": f"day={HOSTILE}/hour=1", "source": HOSTILE},
        {"partition": f"day={DAY}/hour=00", "source": "\u202e"},
    ]
    for each in events:
        await world.commit("clicks", each["partition"], source=each["source"])
    await world.settled()
    found = await world.dataset()
    assert {each["source"] for each in found["partitions"]} == {HOSTILE, "\u202e"}
    (key,) = found["rollUps"][0]["keys"]
    assert (key["key"], key["present"]) == (DAY, 1)
    answer = await world.browser.get("/ui/datasets/default.clicks")
    assert "<script>alert" not in answer.text
    assert HOSTILE in unescape(answer.text)


async def test_a_day_names_the_regions_that_are_missing_of_each_hour_and_counts_strange_ones(
    world: DatasetWorld,
) -> None:
    regions = ["eu", "us", "ap 1"]
    closed = {"name": "work", "weekdays": ["SAT"]}
    await world.deploy(app(rolled_up(each={"column": "region", "values": regions}, calendar=closed), "daily"))
    every = [f"{hour}/region={region}" for hour in hours(DAY, [*HOURS, "23"]) for region in regions]
    lacking = {f"day={DAY}/hour=05/region=us", f"day={DAY}/hour=23/region=us", f"day={DAY}/hour=23/region=eu"}
    await world.commit("clicks", *(each for each in every if each not in lacking))
    await world.commit("clicks", f"day={DAY}/hour=05/region=eu", f"day={DAY}/hour=05/region=mars")
    await world.commit("clicks", "day=2026-03-28/hour=05/region=eu")
    await world.settled()

    found = await world.dataset(limit=1)
    (roll_up,) = found["rollUps"]
    (key,) = roll_up["keys"]
    missing = f"{DAY}T23 of region eu; {DAY}T05 and {DAY}T23 of region us"
    assert (roll_up["rolledUpTo"], roll_up["each"]) == ("day", "region")
    assert (key["key"], key["expected"], key["present"], key["missing"]) == (DAY, 69, 66, missing)
    assert key["missingPeriods"] == [f"{DAY}T23 of region eu", f"{DAY}T05 of region us", f"{DAY}T23 of region us"]
    assert (key["rewritten"], found["completeness"]) == ([f"{DAY}T05 of region eu"], "incomplete")
    assert missing in await page_of(world)

    who = world.browser
    answer = await who.http.get("/v1/schedules/default.traffic.daily/keys", headers=who.authorization)
    (open_key,) = answer.json()["keys"]
    node = open_key["progress"]
    while node.get("children"):
        (node,) = node["children"]
    assert (node["have"], node["need"], node["missing_text"]) == (66, 69, missing)
    assert node["missing_periods"] == [
        [f"{DAY}T23", f"{DAY}T23", "eu"],
        [f"{DAY}T05", f"{DAY}T05", "us"],
        [f"{DAY}T23", f"{DAY}T23", "us"],
    ]
    losses = answer.json()["losses"]
    assert losses["keylessEvents"] == 2
    assert losses["keylessWhy"] == "2026-03-28T05 is closed by calendar work: every SAT"
