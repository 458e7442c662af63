"""A case: one hostile act, and the installation it is done to."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import asyncpg
import httpx

from streamsched.domain.errors import NotFoundError, TooLargeError
from streamsched.ports.broker import Broker, Outgoing
from tests.hostile.extremes import written

#: How long one request of a case may take.
_ANSWER_S: Final = 60.0
#: What the API answers, with 500, about a row that was damaged by hand.
_DAMAGED: Final = "cannot be read by this release"
JSON: Final = {"content-type": "application/json"}


@dataclass(slots=True)
class Site:
    """What a case may use of an installation.

    Attributes:
        far: URL of `far_server`.
        aloud: whether every answer is printed.
        answers: status of each answer that cases got.
        faults: answers of 5xx and tracebacks of commands, each with what was asked.
    """

    client: httpx.AsyncClient
    pool: asyncpg.Pool
    broker: Broker
    folder: Path
    far: str
    url: str
    aloud: bool = False
    answers: Counter[int] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    async def ask(
        self, method: str, path: str, body: Any = None, *, raw: bytes | None = None, **options: Any
    ) -> httpx.Response | None:
        """One request; None when it could not be sent or had no answer."""
        content = raw if raw is not None or body is None else written(body)
        headers = {**JSON, **options.pop("headers", {})}
        try:
            answer = await self.client.request(
                method, path, content=content, headers=headers, timeout=_ANSWER_S, **options
            )
        except httpx.TimeoutException:
            self.faults[f"{method} {path[:200]}: no answer within {_ANSWER_S:g} s"] += 1
            return None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, ValueError):
            return None  # our client refuses to say it, or the connection was closed before all was read
        self.answers[answer.status_code] += 1
        if self.aloud:
            sys.stdout.write(f"    {method} {path[:100]}: {answer.status_code} {answer.text[:300]!r}\n")
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE and "retry-after" in answer.headers:
            return answer  # others' bodies take the room: a client repeats it
        if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR and _DAMAGED not in answer.text:
            self.faults[f"{method} {path[:200]}: {answer.status_code} {answer.text[:300]}"] += 1
        return answer

    async def append(self, records: Sequence[Outgoing]) -> None:
        """Straight into the log; what the log itself refuses is no matter."""
        try:
            await self.broker.append(records)
        except (NotFoundError, TooLargeError):
            return


Act = Callable[[Site], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Case:
    """Attributes:
    number: its place in the run of its seed; `h<number>` is what its names begin with.
    way: the way in.
    said: what it does, for people.
    heavy: whether it is too much for a short run.
    """

    number: int
    way: str
    said: str
    act: Act
    heavy: bool = False

    def __str__(self) -> str:
        return f"case {self.number} ({self.way}): {self.said}"


#: Makes the act of a case: its name, its random numbers; what it does for people, the act, whether it is heavy.
Made = tuple[str, Act]
Maker = Callable[[str, random.Random], Made]
