"""Events in any accepted dialect in, our own JSON out.

An object with `specversion` is a CloudEvent (`codec.cloudevents`), one with `notificationType` a CDAP notification
(`codec.cdap.notification`), anything else must be native (`codec.native`, where the fields are listed). Decoding is
total: any bytes give an event or a `DecodeError` that names the field.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from streamsched.codec import cloudevents, native
from streamsched.codec.cdap import notification
from streamsched.codec.scalar import loads, mapping, may_hold_nul, name, parsed, refuse_nul, sequence
from streamsched.domain.errors import DecodeError
from streamsched.domain.event import Event, Ticked

#: How an id begins that ingest made from a log position: such an event is unique by itself.
LOG_ID: Final = "log:"


def encode(event: Event) -> bytes:
    """Native JSON; `decode` gives back an equal event."""
    return native.dumps(native.to_json(event))


def decode(raw: bytes, *, fallback_id: str, fallback_time: datetime) -> Event:
    """The event that `raw` says, in whatever dialect.

    Args:
        fallback_id: id of an event that names none, such as `log:<topic>:<partition>:<offset>`.
        fallback_time: time (UTC) of an event that names none.

    Raises:
        DecodeError: it says none, or one that may not come from outside.
    """
    return _accepted(loads(raw), "$", fallback_id, fallback_time)


def decode_batch(raw: bytes, *, fallback_id: str, fallback_time: datetime) -> list[Event | DecodeError]:
    """Each element of a JSON list on its own, in order: its event, or what is wrong with it (`$[2].data.bytes`).

    An element without an id takes `<fallback_id>:<its place>`; so a repeat of the same batch has the same ids.

    Raises:
        DecodeError: it is no list of anything.
    """
    found: list[Event | DecodeError] = []
    spoilt = may_hold_nul(raw)
    for place, item in enumerate(sequence(parsed(raw), "$")):
        try:
            if spoilt:
                refuse_nul(item, f"$[{place}]")
            found.append(_accepted(item, f"$[{place}]", f"{fallback_id}:{place}", fallback_time))
        except DecodeError as exc:
            found.append(exc)
    return found


def claimed(raw: bytes) -> tuple[str, str] | None:
    """Id and source ("" when it has none) that bytes which are no event claim to have; None when they claim none."""
    try:
        found = mapping(parsed(raw), "$")
        event_id, source = name(found.get("id"), "$.id"), found.get("source")
        return None if event_id.startswith(LOG_ID) else (event_id, "" if source is None else name(source, "$.source"))
    except DecodeError:
        return None


def _accepted(value: object, path: str, fallback_id: str, fallback_time: datetime) -> Event:
    found = mapping(value, path)
    if "specversion" in found:
        event = cloudevents.from_json(found, path, fallback_time=fallback_time)
    elif "notificationType" in found:
        event = notification.from_json(found, path, fallback_id=fallback_id, fallback_time=fallback_time)
    else:
        event = native.from_json(found, path, fallback_id=fallback_id, fallback_time=fallback_time)
        if isinstance(event.fact, Ticked):
            raise DecodeError(f"{path}.type", "ticks come from the timers, never from outside")
    if event.id.startswith(LOG_ID) and event.id != fallback_id:
        raise DecodeError(f"{path}.id", f"must not begin with '{LOG_ID}', which marks ids made from log positions")
    return event
