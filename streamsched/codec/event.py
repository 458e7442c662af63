"""Decodes events of any accepted dialect; encodes native JSON.

An object with `specversion` is a CloudEvent (`codec.events.cloudevents`), another may be of the form of a dialect
(`EventForm`), anything else must be native (`codec.events.native`, where the fields are listed). Decoding is total: any
bytes give an event or a `DecodeError` that names the field.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

from streamsched.codec.events import cloudevents, native
from streamsched.codec.events.form import EventForm
from streamsched.codec.events.native import LOG_ID
from streamsched.codec.json.scalar import elements, loads, mapping, name, parse
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import Event, Ticked
from streamsched.parts import additions


def encode(event: Event) -> bytes:
    """Native JSON; `decode` gives back an equal event."""
    return native.dumps(native.to_json(event))


def decode(raw: bytes, *, fallback_id: str, fallback_time: datetime) -> Event:
    """Decodes one event of any dialect.

    Args:
        fallback_id: id of an event without one, such as `log:<topic>:<partition>:<offset>`.
        fallback_time: time (UTC) of an event without one.

    Raises:
        DecodeError: it is not an event, or of a type not accepted from outside.
    """
    return _accept(loads(raw), "$", fallback_id, fallback_time)


def decode_batch(raw: bytes, *, fallback_id: str, fallback_time: datetime) -> list[Event | DecodeError]:
    """`decode_each` of the elements of a JSON list.

    Raises:
        DecodeError: it is not a JSON list.
    """
    return decode_each(elements(raw), fallback_id=fallback_id, fallback_time=fallback_time)


def decode_each(items: Sequence[Any], *, fallback_id: str, fallback_time: datetime) -> list[Event | DecodeError]:
    """Decodes each element of a list (`scalar.elements`) by itself, in order: an event, or its error (path such as
    `$[2].data.bytes`). An element without an id gets `<fallback_id>:<index>`, so a repeat of the same batch has the
    same ids.
    """
    found: list[Event | DecodeError] = []
    for index, item in enumerate(items):
        if isinstance(item, DecodeError):
            found.append(item)
            continue
        try:
            found.append(_accept(item, f"$[{index}]", f"{fallback_id}:{index}", fallback_time))
        except DecodeError as exc:
            found.append(exc.with_traceback(None))  # its frames would keep the whole list
    return found


def find_identity(raw: bytes) -> tuple[str, str] | None:
    """The id and source ("" when missing) in bytes that are not a valid event; None when there is no id."""
    try:
        found = mapping(parse(raw), "$")
        event_id, source = name(found.get("id"), "$.id"), found.get("source")
        return None if event_id.startswith(LOG_ID) else (event_id, "" if source is None else name(source, "$.source"))
    except DecodeError:
        return None


@cache
def _forms() -> Sequence[EventForm]:
    return [form for _, form in additions("events")]


def _accept(value: object, path: str, fallback_id: str, fallback_time: datetime) -> Event:
    found = mapping(value, path)
    if "specversion" in found:
        event = cloudevents.from_json(found, path, fallback_time=fallback_time)
    elif form := next((each for each in _forms() if each.recognises(found)), None):
        event = form.from_json(found, path, fallback_id=fallback_id, fallback_time=fallback_time)
    else:
        event = native.from_json(found, path, fallback_id=fallback_id, fallback_time=fallback_time)
        if isinstance(event.fact, Ticked):
            raise DecodeError(f"{path}.type", "ticks come from the timers, never from outside")
    if event.id.startswith(LOG_ID) and event.id != fallback_id:
        raise DecodeError(f"{path}.id", f"must not begin with '{LOG_ID}', which marks ids made from log positions")
    return event
