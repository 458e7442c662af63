"""Events over HTTP: `POST <url>/v1/events`, a CloudEvents batch in JSON.

The server accepts the valid events of a batch even if it refuses others. It answers 202 when it accepted any, 400 when
it accepted none, with `{"accepted": n, "errors": [{"index", "path", "reason"}]}`. Failures that a retry may fix (no
connection, 408, 425, 429, 5xx) are `Unreachable`; any other answer raises, and so does a 200 or 400 that is not in this
format, for example of a proxy.

Uses the standard library's client, which imports quickly, because it runs inside users' Spark jobs. One persistent
connection, no proxy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from streamsched.codec import problem
from streamsched.codec.events import cloudevents
from streamsched.domain.errors import ConfigurationError, Refusal
from streamsched.domain.events.event import Event
from streamsched.emit.delivery import Accepted, Answer, EncodedEvent, Refused, TooLarge, Unreachable
from streamsched.process.http_connection import BlockingConnection, HttpResponse

CONTENT_TYPE: Final = "application/cloudevents-batch+json"
_PATH: Final = "/v1/events"


class HttpTransport:
    """A connection to one server. For one thread at a time."""

    def __init__(self, url: str, *, token: str = "", timeout: timedelta = timedelta(seconds=10)) -> None:
        """Connects at the first `send`. `token`: the server's token; empty sends none.

        Raises:
            ConfigurationError: not an `http(s)://host` URL.
        """
        parts = urlsplit(url)
        headers = {"Content-Type": CONTENT_TYPE, **({"Authorization": f"Bearer {token}"} if token else {})}
        self._connection = BlockingConnection(url, headers, timeout=timeout.total_seconds(), proxies=False)
        self._shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}{_PATH}"

    def encode(self, event: Event) -> bytes:
        return cloudevents.encode(event)

    def send(self, encoded: Sequence[EncodedEvent]) -> Answer:
        """One request.

        Raises:
            ConfigurationError: the server is not a streamsched server, or denies access.
        """
        body = b"[" + b",".join(each.payload for each in encoded) + b"]"
        started = monotonic()
        answer = self._connection.send("POST", _PATH, content=body)
        if not answer.status:
            return Unreachable(_elapsed_since(started), f"{self._shown}: {answer.failure}")
        return self._read(answer, took=_elapsed_since(started), count=len(encoded))

    def close(self) -> None:
        self._connection.close()

    def _read(self, answer: HttpResponse, *, took: timedelta, count: int) -> Answer:
        status, body, wait = answer.status, answer.content, answer.retry_after
        if status == 413:
            return TooLarge(took)
        if (status < 300 or status in (400, 422)) and (found := _refusals(status, body, count)) is not None:
            if len(found) < _count_refused(body):
                return TooLarge(took)  # it does not say which; those that it accepted count once
            unheard = _unheard_keys(body)
            return Refused(took, found, unheard) if found else Accepted(took, unheard)
        why = f"{self._shown} answered {status}"
        if status >= 500 or status in problem.COME_BACK:
            return Unreachable(took, why, timedelta(seconds=int(wait[:9])) if wait.isdecimal() else None)
        raise ConfigurationError(f"{why}: {body[:200].decode(errors='replace')}")


def _refusals(status: int, body: bytes, count: int) -> tuple[Refusal, ...] | None:
    """The refused events; None when the body is not in the server's format, so no event was accepted or refused."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    match answer:
        case {"accepted": int(), "errors": [*errors]} if errors or status < 300:
            return _parse_refusals(answer, count)
        case {"type": str(kind), "detail": str(reason)} if status >= 400 and kind.startswith(problem.TYPE):
            return tuple(Refusal(index, "$", reason) for index in range(count))
        case _:
            return None


def _count_refused(body: bytes) -> int:
    """The number of refused events, when the server lists only the first; else 0."""
    match orjson.loads(body):
        case {"refused": int(number)}:
            return number
        case _:
            return 0


def _unheard_keys(body: bytes) -> tuple[str, ...]:
    """The event keys that no schedule listens to, as reported by the server; () when it does not report them."""
    match orjson.loads(body):
        case {"unheard": [*keys]}:
            return tuple(str(key) for key in keys)
        case _:
            return ()


def _parse_refusals(answer: Mapping[str, Any], count: int) -> tuple[Refusal, ...] | None:
    try:
        found = {each.index: each for each in problem.refusals_from_json(answer)}
    except (KeyError, TypeError, ValueError):
        return None
    return tuple(found[index] for index in sorted(found)) if found.keys() <= set(range(count)) else None


def _elapsed_since(started: float) -> timedelta:
    return timedelta(seconds=monotonic() - started)
