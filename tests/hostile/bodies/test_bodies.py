"""The worst bodies on a real API: a few of each kind, and all of them with every route."""

from __future__ import annotations

import asyncio
from itertools import groupby

import pytest

from streamsched.api.access.rules import RULES
from tests.hostile.bodies.trial import trial
from tests.hostile.bodies.worst_bodies import LARGEST, worst_requests

pytestmark = pytest.mark.postgres

#: What reads the largest bodies, and what answers for each element.
_FEW = ("POST /v1/events", "POST /v3/namespaces/{namespace}/nextruntime")


def test_every_route_that_reads_a_body_is_tried_with_several() -> None:
    found = {route: len(list(each)) for route, each in groupby(worst_requests(), lambda request: request.route)}
    written = {route for route in RULES if route.startswith(("POST", "PUT"))}
    assert written - found.keys() == {"POST /v1/tokens/{token}/revoke"}
    assert sum(found[route] >= 8 for route in written & found.keys()) > 60
    assert max(len(each.body) for each in worst_requests()) <= LARGEST + 1


@pytest.mark.timeout(300)
def test_the_worst_bodies_hold_up_nothing(database: str) -> None:
    chosen = [each for each in worst_requests() if each.route in _FEW and not each.kind.startswith("valid: text")][::2]
    outcomes = asyncio.run(trial(database, chosen))
    assert len(outcomes) == len(_FEW)
    assert [each.line() for each in outcomes if not each.well] == []


@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_route_is_held_up_by_its_worst_request(database: str) -> None:
    outcomes = asyncio.run(trial(database, [*worst_requests()][::7]))
    assert len(outcomes) > 130
    assert [each.line() for each in outcomes if not each.well] == []
