"""A client that asks again until it is answered, however long the API is away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import httpx

#: How long a request is tried for, in seconds, and how long one try may take.
_PATIENCE_S: Final = 300.0
ANSWER_S: Final = 20.0


class Answered(NamedTuple):
    """An answer that is no error of the server. `again`: an earlier try, without an answer, may have been done."""

    answer: httpx.Response
    again: bool

    def must_be(self, *codes: int) -> httpx.Response:
        """The answer; a success is always welcome.

        Raises:
            AssertionError: it is refused with another code.
        """
        request = self.answer.request
        assert self.answer.is_success or self.answer.status_code in codes, (
            f"{request.method} {request.url}: {self.answer.status_code} {self.answer.text}"
        )
        return self.answer


async def ask(client: httpx.AsyncClient, method: str, path: str, body: Any = None, **headers: str) -> Answered:
    """Raises:
    AssertionError: there is no answer for too long.
    """
    deadline, again, said = time.monotonic() + _PATIENCE_S, False, "nothing"
    while time.monotonic() < deadline:
        try:
            answer = await client.request(method, path, json=body, headers=headers, timeout=ANSWER_S)
        except httpx.HTTPError as exc:
            said = repr(exc)
        else:
            if not answer.is_server_error:
                return Answered(answer, again)
            said = f"{answer.status_code} {answer.text}"
        again = True
        await asyncio.sleep(0.2)
    raise AssertionError(f"{method} {path}: {said}")


async def ask_once(client: httpx.AsyncClient, method: str, path: str, **options: Any) -> Mapping[str, Any] | None:
    """What a success says; None: there is no answer, or another."""
    try:
        answer = await client.request(method, path, timeout=ANSWER_S, **options)
    except httpx.HTTPError:
        return None
    return answer.json() if answer.is_success else None
