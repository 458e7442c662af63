"""CloudEvents 1.0 in JSON: structured mode, and binary mode with the attributes in headers.

| `type`                         | becomes                                                                           |
|--------------------------------|-----------------------------------------------------------------------------------|
| `streamsched.partitions.added` | partitions added; `data` as in native JSON (`codec.events.native`)                |
| `streamsched.stream.size`      | stream size, likewise                                                             |
| `streamsched.program.status`   | program status, likewise                                                          |
| `streamsched.custom`           | custom event, likewise                                                            |
| any other `streamsched.…`      | refused: a misspelt type must not vanish                                          |
| any other type                 | custom event `default.<type>`; attributes: the members of `data`, as JSON text    |

`id`, `source`, `specversion` and `type` are required; `time` has a fallback. `data_base64` must contain JSON too.
Of the extension attributes `traceparent` is read (distributed tracing); a malformed one is ignored, as are the others,
`subject`, `dataschema` and `datacontenttype`.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote

import orjson

from streamsched.codec.events.native import TICK, dumps, fact_from_json, fact_to_json
from streamsched.codec.json.scalar import LARGEST, instant, loads, mapping, name, text
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.events.event import CustomHappened, Event, Fact
from streamsched.domain.events.trace_context import canonical
from streamsched.domain.limits import abridge
from streamsched.domain.names import DEFAULT_NAMESPACE, EventName

PREFIX: Final = "streamsched."
_HEADERS: Final = ("ce-", "ce_")


def to_json(event: Event) -> dict[str, Any]:
    """The event as a structured CloudEvent; `subject` is its event key."""
    kind, data = fact_to_json(event.fact)
    traced = {} if event.traceparent is None else {"traceparent": event.traceparent}
    return {
        "specversion": "1.0",
        "id": event.id,
        "source": event.source,
        "type": PREFIX + kind,
        "subject": event.key,
        "time": event.time,
        **traced,
        "datacontenttype": "application/json",
        "data": data,
    }


def encode(event: Event) -> bytes:
    """The event as structured JSON."""
    return dumps(to_json(event))


def from_json(value: object, path: str = "$", *, fallback_time: datetime) -> Event:
    """Decodes a structured CloudEvent.

    Raises:
        DecodeError: an attribute is missing or wrong, or `data` does not fit the type.
    """
    found = mapping(value, path)
    version = text(found.get("specversion"), f"{path}.specversion")
    if version != "1.0":
        raise DecodeError(f"{path}.specversion", f"must be 1.0 but is {abridge(version)}")
    time = found.get("time")
    return Event(
        name(found.get("id"), f"{path}.id"),
        name(found.get("source"), f"{path}.source"),
        fallback_time if time is None else instant(time, f"{path}.time"),
        _fact(name(found.get("type"), f"{path}.type"), _data(found, path), path),
        canonical(found.get("traceparent")),
    )


def decode_binary(headers: Mapping[str, str], body: bytes, *, fallback_time: datetime) -> Event:
    """Decodes a binary-mode message: attributes in `ce-…` (HTTP) or `ce_…` (Kafka) headers, JSON data as body.

    Header names are case-insensitive; values are percent-decoded. Paths are as in structured mode.

    Raises:
        DecodeError: as `from_json`.
    """
    found: dict[str, Any] = {
        key[3:].lower(): unquote(value) for key, value in headers.items() if key[:3].lower() in _HEADERS
    }
    if body:
        found["data"] = loads(body, "$.data")
    return from_json(found, fallback_time=fallback_time)


def _data(found: Mapping[str, Any], path: str) -> object:
    encoded = found.get("data_base64")
    if encoded is None:
        return found.get("data")
    where = f"{path}.data_base64"
    try:
        raw = b64decode(text(encoded, where), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise DecodeError(where, f"is not base64: {exc}") from exc
    return loads(raw, where)


def _fact(kind: str, data: object, path: str) -> Fact:
    own = kind.removeprefix(PREFIX)
    if own == kind:
        return _foreign_fact(kind, data, path)
    if own == TICK:
        raise DecodeError(f"{path}.type", "ticks come from the timers, never from outside")
    return fact_from_json(own, data, path)


def _foreign_fact(kind: str, data: object, path: str) -> Fact:
    members = {} if data is None else mapping(data, f"{path}.data")
    try:
        event = EventName(DEFAULT_NAMESPACE, kind)
    except InvalidError as exc:
        raise DecodeError(f"{path}.type", exc.reason) from exc
    return CustomHappened(event, {key: _member(item, f"{path}.data.{key}") for key, item in members.items()})


def _member(value: object, path: str) -> str:
    if type(value) is str:
        return value
    if type(value) is float and abs(value) > LARGEST:
        raise DecodeError(path, "is too large a number to be kept exactly; write it as text")
    return orjson.dumps(value).decode()
