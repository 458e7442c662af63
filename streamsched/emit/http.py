"""Events over HTTP: `POST <url>/v1/events`, a CloudEvents batch in JSON.

The far end takes the valid events of a batch even when it refuses others, and says which: 202 when it took any, 400
when it took none, with `{"accepted": n, "errors": [{"index", "path", "reason"}]}`. What a retry can help (no
connection, 408, 425, 429, 5xx) is `Away`; any other answer is an installation gone wrong, and raises. So is the 200 or
400 of something else that listens there, a proxy for one: it has judged no event.

The standard library's client is enough here and starts in no time; it runs inside other people's Spark jobs. It uses
no proxy, and one connection that it keeps.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Sequence
from datetime import timedelta
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from streamsched.codec import cloudevents
from streamsched.domain.errors import ConfigurationError, Refusal
from streamsched.domain.event import Event
from streamsched.emit.delivery import Accepted, Answer, Away, Parcel, Refused, TooLarge

CONTENT_TYPE: Final = "application/cloudevents-batch+json"
_RETRIABLE: Final = frozenset({408, 425, 429})
#: How the types of the far end's problems begin.
_PROBLEM: Final = "urn:streamsched:problem:"


class HttpLink:
    """A connection to one server. For one thread at a time."""

    def __init__(self, url: str, *, timeout: timedelta = timedelta(seconds=10)) -> None:
        """Connects at the first `send`.

        Raises:
            ConfigurationError: not an `http(s)://host` URL.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"'{url}' is not the URL of a server, such as http://127.0.0.1:8765")
        seconds = timeout.total_seconds()
        if parts.scheme == "https":
            context = ssl.create_default_context()
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=seconds, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)
        self._target = parts.path.rstrip("/") + "/v1/events"
        self._shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{self._target}"

    def encode(self, event: Event) -> bytes:
        return cloudevents.encode(event)

    def send(self, parcels: Sequence[Parcel]) -> Answer:
        """One request.

        Raises:
            ConfigurationError: the server is no streamsched, or does not let us in.
        """
        body = b"[" + b",".join(parcel.payload for parcel in parcels) + b"]"
        started = monotonic()
        try:
            status, answered, wait = self._post(body)
        except (OSError, http.client.HTTPException) as exc:
            return Away(_since(started), f"{self._shown}: {exc or type(exc).__name__}")
        return self._answer(status, answered, wait, took=_since(started), count=len(parcels))

    def close(self) -> None:
        self._connection.close()

    def _post(self, body: bytes) -> tuple[int, bytes, str]:
        kept_alive = self._connection.sock is not None
        try:
            self._connection.request("POST", self._target, body, {"Content-Type": CONTENT_TYPE})
            response = self._connection.getresponse()
            return response.status, response.read(), response.headers.get("Retry-After", "")
        except (OSError, http.client.HTTPException) as exc:
            self._connection.close()
            if kept_alive and isinstance(exc, ConnectionError):
                return self._post(body)  # the server had hung up on an idle connection: that says nothing about now
            raise

    def _answer(self, status: int, body: bytes, wait: str, *, took: timedelta, count: int) -> Answer:
        if status == 413:
            return TooLarge(took)
        if (status < 300 or status in (400, 422)) and (found := _refusals(status, body, count)) is not None:
            return Refused(took, found) if found else Accepted(took)
        why = f"{self._shown} answered {status}"
        if status >= 500 or status in _RETRIABLE:
            return Away(took, why, timedelta(seconds=int(wait)) if wait.isdecimal() else None)
        raise ConfigurationError(f"{why}: {body[:200].decode(errors='replace')}")


def _refusals(status: int, body: bytes, count: int) -> tuple[Refusal, ...] | None:
    """Which of the events it refuses, and why; None when these are no words of ours, so that nobody has judged them."""
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    match said:
        case {"accepted": int(), "errors": [*errors]} if errors or status < 300:
            return _named(errors, count)
        case {"type": str(kind), "detail": str(reason)} if status >= 400 and kind.startswith(_PROBLEM):
            return tuple(Refusal(index, "$", reason) for index in range(count))
        case _:
            return None


def _named(errors: Sequence[Any], count: int) -> tuple[Refusal, ...] | None:
    try:
        found = {int(e["index"]): _refusal(int(e["index"]), str(e["path"]), str(e["reason"])) for e in errors}
    except (KeyError, TypeError, ValueError):
        return None
    return tuple(found[index] for index in sorted(found)) if found.keys() <= set(range(count)) else None


def _refusal(index: int, path: str, reason: str) -> Refusal:
    """The far end's paths begin in the request (`$[2].data`), ours in the event (`$.data`)."""
    return Refusal(index, f"${path.removeprefix(f'$[{index}]').removeprefix('$')}", reason)


def _since(started: float) -> timedelta:
    return timedelta(seconds=monotonic() - started)
