"""Every answer of an API beside its own OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import httpx
import jsonschema
from jsonschema.exceptions import best_match

from streamsched.api.description.document import document
from tests.support.api_routes import api_routes

#: Parameters that may hold slashes.
_DEEP = ("job_id", "event", "name")


@cache
def api_document() -> dict[str, Any]:
    """The document of the API."""
    return document(api_routes().served)


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path and operation of each route."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def valid(schema: Mapping[str, Any], value: object) -> None:
    """Raises:
    ValidationError: the value is not what the schema of the document describes.
    """
    _validator(json.dumps(schema, sort_keys=True)).validate(value)


async def check_answer(response: httpx.Response) -> None:
    """An event hook of httpx: fails for an answer that the document does not describe."""
    await response.aread()
    wrong = undescribed(response)
    assert wrong is None, f"{response.request.method} {response.request.url}: {wrong}: {response.text[:500]}"


def undescribed(response: httpx.Response) -> str | None:
    """What the document does not say of an answer; None when it describes it, or not its path."""
    found = operation_of(response.request.method, response.request.url.path)
    if found is None:
        return None
    answer = found["responses"].get(str(response.status_code))
    if answer is None:
        return f"status {response.status_code} is not described"
    content = answer.get("content", {})
    if not content:
        return None if not response.content else "the answer has a body"
    kind = response.headers.get("content-type", "")
    if kind not in content:
        return f"content type '{kind}' is not described"
    if kind in ("application/json", "application/problem+json"):
        try:
            valid(content[kind]["schema"], response.json())
        except jsonschema.ValidationError as exc:
            inner = best_match([exc]) or exc
            return f"{inner.json_path}: {inner.message[:300]}"
    return None


@cache
def _validator(schema: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({**json.loads(schema), "components": api_document()["components"]})


@cache
def _patterns() -> list[tuple[str, re.Pattern[str], dict[str, Any]]]:
    found = []
    for method, path, operation in operations(api_document()):
        pattern = re.sub(r"\{(\w+)\}", lambda name: "(.+)" if name[1] in _DEEP else "([^/]+)", path)
        found.append(((path.count("{"), -len(path)), method, re.compile(pattern), operation))
    return [each[1:] for each in sorted(found, key=lambda each: each[0])]  # a deep parameter takes what others leave


def operation_of(method: str, path: str) -> dict[str, Any] | None:
    """The operation of a request; None when the document has none."""
    return next((each for own, pattern, each in _patterns() if own == method and pattern.fullmatch(path)), None)
