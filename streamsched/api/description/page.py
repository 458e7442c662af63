"""The page at `/docs`: the operations of the OpenAPI document, for people. It has no script, and nothing of others."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from html import escape
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from streamsched.api.access.security_headers import HEADERS

_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color-scheme:light dark}"
    "code,pre{font-family:ui-monospace,monospace;font-size:13px}pre{overflow:auto;padding:.5em;border:1px solid #8886}"
    "summary{cursor:pointer}details{margin:.2em 0}.text{white-space:pre-line}.method{display:inline-block;width:5em}"
)
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        f"style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_METHODS: Final = ("get", "put", "post", "patch", "delete")


class ReferencePage:
    """Serves the page, made once from the document when it is first asked for. Belongs to one event loop."""

    def __init__(self, document: Callable[[], Mapping[str, Any]]) -> None:
        self._document = document
        self._page: str | None = None

    async def answer(self, request: Request) -> Response:
        """The page, with a policy that permits its own style and no script."""
        del request
        if self._page is None:
            self._page = page_of(self._document())
        headers = {**HEADERS, "Content-Security-Policy": _POLICY}
        return Response(self._page, media_type="text/html; charset=utf-8", headers=headers)


def page_of(document: Mapping[str, Any]) -> str:
    """An HTML page with the operations of an OpenAPI document by their tags, and its schemas."""
    info = document["info"]
    by_tag: defaultdict[str, list[str]] = defaultdict(list)
    for path, operations in document["paths"].items():
        for method in _METHODS:
            if method in operations:
                operation = operations[method]
                by_tag[next(iter(operation.get("tags", ())), "other")].append(_operation(method, path, operation))
    return "".join(
        (
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(info["title"])} API</title>',
            f"<style>{_STYLE}</style></head><body><h1>{escape(info['title'])} {escape(info['version'])}</h1>",
            '<p>For programs: <a href="/v1/openapi.json">/v1/openapi.json</a></p>',
            *(f"<h2>{escape(tag)}</h2>{''.join(parts)}" for tag, parts in sorted(by_tag.items())),
            "<h2>Schemas</h2>",
            *map(_schema, sorted(document.get("components", {}).get("schemas", {}).items())),
            "</body></html>",
        )
    )


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    return "".join(
        (
            f'<details><summary><code class="method">{method.upper()}</code><code>{escape(path)}</code> ',
            f"{escape(operation.get('summary', ''))}</summary>",
            f'<p class="text">{escape(operation.get("description", ""))}</p>',
            *_parameters(operation),
            *_contents("Body", operation.get("requestBody", {})),
            *(
                part
                for status, answer in operation.get("responses", {}).items()
                for part in _contents(f"{status} {answer.get('description', '')}", answer)
            ),
            "</details>",
        )
    )


def _parameters(operation: Mapping[str, Any]) -> Iterator[str]:
    for each in operation.get("parameters", ()):
        needed = "" if each.get("required") else ", optional"
        text = escape(each.get("description", ""))
        yield f"<p><code>{escape(each['name'])}</code> ({escape(each['in'])}{needed}) {text}</p>"


def _contents(title: str, holder: Mapping[str, Any]) -> Iterator[str]:
    """Its content types with their schemas and examples; a title alone where it has none."""
    contents = holder.get("content", {})
    if not contents and holder:
        yield f"<p>{escape(title)}</p>"
    for kind, content in contents.items():
        shown = {name: content[name] for name in ("schema", "example") if name in content}
        yield f"<details><summary>{escape(title)} <code>{escape(kind)}</code></summary>{_json(shown)}</details>"


def _schema(named: tuple[str, Any]) -> str:
    return f"<details><summary><code>{escape(named[0])}</code></summary>{_json(named[1])}</details>"


def _json(value: object) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2, ensure_ascii=False))}</pre>"
