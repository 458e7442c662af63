"""The worst bodies on a real API: a few of each kind, and all of them with every route."""

from __future__ import annotations

import asyncio
from itertools import groupby
from typing import Final
from zlib import crc32

import orjson
import pytest

from tests.hostile.bodies.trial import trial
from tests.hostile.bodies.worst_bodies import LARGEST, WorstRequest, worst_requests
from tests.support.api_routes import api_rules

pytestmark = pytest.mark.postgres

#: Schedules of a large app: enough that all of them in one turn of the event loop take more than half a second.
_MANY = 3_000
#: The test of all routes sends one of so many requests, and those of these kinds: a large app is then read and deleted.
_SAMPLE: Final = 9
_ALWAYS: Final = ("plain", "valid: object programs")
#: What reads the largest bodies, and what answers for each element.
_FEW = ("POST /v1/events", "POST /v3/namespaces/{namespace}/nextruntime")


def test_every_route_that_reads_a_body_is_tried_with_several() -> None:
    found = {route: len(list(each)) for route, each in groupby(worst_requests(), lambda request: request.route)}
    written = {route for route in api_rules() if route.startswith(("POST", "PUT"))}
    assert written - found.keys() == {"POST /v1/tokens/{token}/revoke"}
    assert sum(found[route] >= 8 for route in written & found.keys()) > 60
    assert max(len(each.body) for each in worst_requests()) <= LARGEST + 1


@pytest.mark.timeout(300)
def test_the_worst_bodies_hold_up_nothing(database: str) -> None:
    chosen = [each for each in worst_requests() if each.route in _FEW and not each.kind.startswith("valid: text")][::2]
    outcomes = asyncio.run(trial(database, chosen))
    assert len(outcomes) == len(_FEW) + 1
    assert [each.line() for each in outcomes if not each.well] == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_thousands_of_schedules_in_one_request_hold_up_nothing(database: str) -> None:
    """Deployed, planned, changed, switched on and off, listed and deleted; health answers in half a second."""
    path = "/v1/apps/many/app"
    change = ("PUT", f"{path}?dry_run=true", 2), ("PUT", path, 2), ("POST", f"{path}/enable", None)
    steps = (
        *(("PUT", f"{path}?dry_run=true", 1), ("PUT", path, 1), *change, ("POST", f"{path}/disable", None)),
        *(("GET", "/v3/namespaces/many/apps/app/schedules", None), ("DELETE", path, None)),
    )
    outcomes = asyncio.run(
        trial(
            database,
            (
                WorstRequest(f"{method} {path}", f"step {number}", path, _many_schedules(needed))
                for number, (method, path, needed) in enumerate(steps)
            ),
            clients=1,
        )
    )
    assert len(outcomes) == len(steps) + 1
    assert [each.line() for each in outcomes if not each.well or each.live_s > 0.5 or set(each.statuses) - {200}] == []


def _many_schedules(needed: int | None) -> bytes:
    """The body of an app with many schedules, each of so many partitions; None: an empty one."""
    if needed is None:
        return b"{}"
    trigger = {"type": "PARTITION", "numPartitions": needed}
    schedules = [
        {"name": f"s{n}", "program": "p", "enabled": False, "trigger": {**trigger, "dataset": f"d{n}"}}
        for n in range(_MANY)
    ]
    return orjson.dumps({"programs": [{"name": "p", "type": "http", "url": "https://x.org"}], "schedules": schedules})


@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_route_is_held_up_by_its_worst_request(database: str) -> None:
    """With some of its requests, whichever other routes there are; `make trial KIND=bodies` tries all."""
    chosen = [
        each
        for each in worst_requests()
        if each.kind in _ALWAYS or not crc32(f"{each.route} {each.kind}".encode()) % _SAMPLE
    ]
    outcomes = asyncio.run(trial(database, chosen))
    assert len(outcomes) > 130
    assert [each.line() for each in outcomes if not each.well] == []
