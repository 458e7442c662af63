"""The fair share of streams that one caller and one namespace may hold."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from streamsched.api.streams.places import Places
from streamsched.domain.access.grant import Caller, Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.errors import ConflictError


def viewer(name: str, *namespaces: str) -> Caller:
    return Caller(f"token:{name}", tuple(Grant(role=AccessRole.VIEWER, namespace=each) for each in namespaces))


def taken(places: Places, caller: Caller, stack: ExitStack) -> int:
    """How many places the caller gets until it is refused."""
    for number in range(1000):
        try:
            stack.enter_context(places.hold(caller))
        except ConflictError:
            return number
    raise AssertionError("it is never refused")


def test_a_namespace_leaves_places_to_others_however_many_callers_it_has() -> None:
    places = Places("follow", 200)
    with ExitStack() as stack:
        assert [taken(places, viewer(f"s{n}", "sales"), stack) for n in range(4)] == [20, 20, 10, 0]
        assert taken(places, viewer("f", "finance"), stack) == 20
        assert taken(places, viewer("both", "sales", "ops"), stack) == 0, "it counts in each of its namespaces"
        assert taken(places, viewer("all", "*"), stack) == 100
        assert taken(places, viewer("other", "*"), stack) == 30, "what is left"
        assert places.total == 200
        with pytest.raises(ConflictError, match="200 clients follow at this process"):
            places.check(viewer("g", "ops"))
    assert places.total == 0
    places.check(viewer("s0", "sales"))


def test_a_refusal_names_whose_share_is_used_up() -> None:
    places = Places("follow decisions", 10)
    with places.hold(viewer("s", "sales")), pytest.raises(ConflictError, match="token:s has 1 places to follow"):
        places.check(viewer("s", "sales"))
