"""The OpenAPI document describes every route and every query parameter."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamsched.api.allowed_hosts import AllowedHosts
from streamsched.api.app import make_api
from streamsched.api.deps import ApiServices

_METHODS = {"get", "put", "post", "delete", "patch"}


def _operations() -> Iterator[tuple[str, dict[str, Any]]]:
    services = SimpleNamespace(health=None, metrics=None, audit=None, allowed_hosts=AllowedHosts())
    for path, methods in make_api(cast("ApiServices", services)).openapi()["paths"].items():
        for method in methods.keys() & _METHODS:
            yield f"{method.upper()} {path}", methods[method]


OPERATIONS = dict(sorted(_operations()))


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_route_has_a_written_summary_and_a_description(name: str) -> None:
    operation = OPERATIONS[name]
    generated = operation["operationId"].partition("_v")[0].replace("_", " ").title()

    assert operation["summary"] != generated, "the summary is derived from the function's name"
    assert operation["description"].strip().endswith((".", "`", ":"))
    assert operation["tags"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_query_parameter_has_a_description(name: str) -> None:
    parameters = [each for each in OPERATIONS[name].get("parameters", ()) if each["in"] == "query"]

    assert [each["name"] for each in parameters if not each.get("description")] == []


def test_summaries_of_one_tag_differ() -> None:
    seen = [(tag, each["summary"]) for each in OPERATIONS.values() for tag in each["tags"]]

    assert sorted(seen) == sorted(set(seen))
