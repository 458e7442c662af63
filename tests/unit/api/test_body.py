"""What a request body may hold."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import HTTPException, Request

from streamsched.api.body import read_body


async def read(body: bytes) -> bytes:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    app = SimpleNamespace(state=SimpleNamespace(services=SimpleNamespace(body_limit=1 << 24)))
    return await read_body(Request({"type": "http", "headers": [], "app": app}, receive))


async def test_a_body_of_too_many_values_is_refused() -> None:
    most = b"[" + b"1," * 1_500_000 + b"1]"
    assert await read(most) == most

    with pytest.raises(HTTPException) as refused:
        await read(b"[" + b"1," * 1_500_001 + b"1]")

    assert (refused.value.status_code, refused.value.detail) == (
        413,
        "the body has more than 1,500,000 commas; send fewer values in each request",
    )
