"""The page about the API for people."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

import httpx
from starlette.applications import Starlette
from starlette.routing import Route

from streamsched.api.description.page import ReferencePage, page_of
from tests.support.described_answers import api_document


async def test_the_page_has_every_operation_and_nothing_that_runs_or_comes_from_elsewhere() -> None:
    api = Starlette(routes=[Route("/docs", ReferencePage(api_document).answer)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://localhost") as client:
        answer = await client.get("/docs")
    page, policy = answer.text, answer.headers["content-security-policy"]
    for path, operations in api_document()["paths"].items():
        for method in operations:
            assert f'<code class="method">{method.upper()}</code><code>{path}</code>' in page
    assert "<script" not in page
    assert set(re.findall(r'(?:src|href)="([^"]*)"', page)) == {"/v1/openapi.json"}
    (style,) = re.findall(r"<style>(.*?)</style>", page)
    assert f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in policy
    assert "script-src" not in policy
    assert policy.startswith("default-src 'none'")
    assert answer.headers["x-frame-options"] == "DENY"


def test_texts_of_the_document_are_no_markup() -> None:
    evil = "<script>alert(1)</script>"
    operation = {
        "summary": evil,
        "description": evil,
        "tags": [evil],
        "parameters": [{"name": evil, "in": "query", "description": evil}],
        "requestBody": {"content": {evil: {"example": evil}}},
        "responses": {"200": {"description": evil}},
    }
    document = {
        "info": {"title": evil, "version": evil},
        "paths": {f"/{evil}": {"get": operation}},
        "components": {"schemas": {evil: {"description": evil}}},
    }
    assert "<script" not in page_of(document)
