"""Signals as records of topic `signals`: the key is the address, the value is JSON.

An `Occurred` is its event in native JSON, with `"logged"` (milliseconds) as the first field when the log's time of it
is known, and `"delay"` (milliseconds) as the last when it is late: the home of an event key forwards the same bytes to
each schedule's home, under the schedule's key. Control signals begin with `{"signal":`, so they are recognised by their
prefix; so does an `Occurred` of statistics, which is no commit. Barriers travel among them (`codec.records.barrier`).

| `signal`                   | fields                                                       | key              |
|----------------------------|--------------------------------------------------------------|------------------|
| `put`                      | `schedule`, `generation`, `enabled`, `trigger`, and policies | of the schedule  |
| `drop`                     | `schedule`, `generation`                                     | of the schedule  |
| `woken`                    | `schedule`, `generation`, `cell`, `due_at`                   | of the schedule  |
| `replay`                   | `schedule`, `generation`                                     | of the schedule  |
| `statistics`               | `occurred`: the `Occurred`                                   | of the schedule  |
| `subscribe`                | `schedule`, `generation`, `affinity` if it has one           | the event key    |
| `unsubscribe`              | `schedule`, `generation`                                     | the event key    |

The key of a schedule is `schedule:<ref>`, and `schedule:<ref>@<affinity>` of one that has an affinity
(`domain.signals.home`).

Policies of a `put`, each with a default: `consumption`, `keep`, `late`, `draining`, `backlog`; and `started`, when jobs
exist that its home may not know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, assert_never

from streamsched.codec.events import native
from streamsched.codec.json.scalar import boolean, instant, integer, mapping, parse, schedule, text
from streamsched.codec.records.state import consumption, consumption_to_json, trigger
from streamsched.codec.schedules.policy import LATE, read_late
from streamsched.codec.triggers import trigger as triggers
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import schedule_key
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.signal import (
    IN_TIME,
    Drop,
    Occurred,
    Put,
    Replay,
    Signal,
    Subscribe,
    Unsubscribe,
    Woken,
)

_LOGGED: Final = b'{"logged":'
#: The head of an event in canonical form, and fields that must not follow: other dialects, control, or duplicates.
_OURS: Final = re.compile(rb'\{"id":"[^"\\]+","source":"[^"\\]+","time":"[^"\\]+","type":"[^"\\]+","data":\{')
_NOT_OURS: Final = re.compile(rb'"(?:signal|specversion|notificationType|id|source|time|type|data|delay)"\s*:')
_MILLISECOND: Final = timedelta(milliseconds=1)
#: Most digits of a time in milliseconds: the year 9999 has 15.
_LOGGED_DIGITS: Final = 15


def encode(signal: Signal, affinity: int | None = None) -> tuple[bytes, bytes]:
    """Record key and value. `affinity`: of the schedule to whose home a control signal goes."""
    match signal:
        case Occurred(event=event, delay=delay, logged_ms=logged_ms):
            value = native.dumps(native.to_json(event))
            value = add_delay(value, delay) if delay else value
            value = add_logged(value, logged_prefix(logged_ms)) if logged_ms else value
            return event.key.encode(), statistics_of(value) if signal.statistics else value
        case Put(schedule=ref, generation=generation):
            return schedule_key(ref, affinity).encode(), _control("put", ref, generation, _put_to_json(signal))
        case Drop(schedule=ref, generation=generation):
            return schedule_key(ref, affinity).encode(), _control("drop", ref, generation, {})
        case Replay(schedule=ref, generation=generation):
            return schedule_key(ref, affinity).encode(), _control("replay", ref, generation, {})
        case Subscribe(key=key, schedule=ref, generation=generation, affinity=at):
            return key.encode(), _control("subscribe", ref, generation, {} if at is None else {"affinity": at})
        case Unsubscribe(key=key, schedule=ref, generation=generation):
            return key.encode(), _control("unsubscribe", ref, generation, {})
        case Woken(schedule=ref, generation=generation, cell=cell, due_at=due_at):
            return schedule_key(ref, affinity).encode(), _control(
                "woken", ref, generation, {"cell": cell, "due_at": due_at}
            )
        case _:
            assert_never(signal)


def add_delay(value: bytes, delay: timedelta) -> bytes:
    """Adds a delay to the value of an `Occurred` in canonical form without one."""
    return b'%b,"delay":%d}' % (value.rstrip()[:-1], delay // _MILLISECOND)


def logged_prefix(logged_ms: int) -> bytes:
    """The beginning of an `Occurred` that the log took at this time, in milliseconds since the epoch."""
    return b"%b%d," % (_LOGGED, logged_ms)


def add_logged(value: bytes, prefix: bytes) -> bytes:
    """The value of an `Occurred` in canonical form without a time, with that of a `logged_prefix`."""
    return prefix + value[1:]


def split_logged(value: bytes) -> tuple[int, bytes]:
    """The time when the log took an event, and the value of its `Occurred` without it; 0 without a time.

    Raises:
        DecodeError: the time is not an integer.
    """
    if not value.startswith(_LOGGED):
        return 0, value
    end = value.find(b",")
    number = value[len(_LOGGED) : end]
    if not number.isdigit() or len(number) > _LOGGED_DIGITS:
        raise DecodeError("$.logged", "must be milliseconds since the epoch")
    return int(number), b"{" + value[end + 1 :]


def statistics_of(value: bytes) -> bytes:
    """The value of an `Occurred` as one of its statistics."""
    return b'{"signal":"statistics","occurred":%b}' % value


def decode(key: bytes, value: bytes) -> Signal:
    """Decodes a record. An `Occurred` does not depend on the key: forwarding changes the address only.

    Raises:
        DecodeError: the value is not a signal, or the key of a control signal is not text.
    """
    logged_ms, value = split_logged(value)
    found = mapping(parse(value), "$")
    kind = None if logged_ms else found.get("signal")
    if kind is None:
        return _read_occurred(found, "$", logged_ms)
    if kind == "statistics":
        occurred = mapping(found.get("occurred"), "$.occurred")
        logged_ms = integer(occurred.get("logged", 0), "$.occurred.logged")
        return _read_occurred(occurred, "$.occurred", logged_ms)._replace(statistics=True)
    ref = schedule(found.get("schedule"), "$.schedule")
    generation = integer(found.get("generation"), "$.generation")
    match kind:
        case "put":
            return _read_put(found, ref, generation)
        case "drop":
            return Drop(ref, generation)
        case "replay":
            return Replay(ref, generation)
        case "subscribe":
            affinity = integer(found["affinity"], "$.affinity") if "affinity" in found else None
            return Subscribe(_key(key), ref, generation, affinity)
        case "unsubscribe":
            return Unsubscribe(_key(key), ref, generation)
        case "woken":
            cell = found.get("cell")
            if not isinstance(cell, str):
                raise DecodeError("$.cell", "must be text")
            return Woken(ref, generation, cell, instant(found.get("due_at"), "$.due_at"))
        case _:
            known = "put, drop, replay, statistics, subscribe, unsubscribe, woken"
            raise DecodeError("$.signal", f"must be one of {known} but is {text(kind, '$.signal')!r}")


def _read_occurred(found: Mapping[str, Any], path: str, logged_ms: int) -> Occurred:
    event, delay = native.from_json(found, path), IN_TIME
    if "delay" in found:
        delay = timedelta(milliseconds=integer(found["delay"], f"{path}.delay"))
    return Occurred(event, delay, logged_ms=logged_ms)


def _put_to_json(put: Put) -> dict[str, Any]:
    return {
        "enabled": put.enabled,
        "trigger": triggers.to_json(put.trigger),
        **consumption_to_json(put.consumption),
        **({"keep": True} if put.keep else {}),
        **({} if put.late is None else {"late": LATE.write(put.late)}),
        **({"started": put.started} if put.started else {}),
        **({"draining": True} if put.draining else {}),
        **({"backlog": True} if put.backlog else {}),
    }


def _read_put(found: Mapping[str, Any], ref: ScheduleRef, generation: int) -> Put:
    late = found.get("late")
    return Put(
        ref,
        generation,
        boolean(found.get("enabled"), "$.enabled"),
        trigger(found.get("trigger"), "$.trigger"),
        consumption(found.get("consumption"), "$.consumption"),
        keep="keep" in found and boolean(found["keep"], "$.keep"),
        late=None if late is None else read_late(late, "$.late"),
        started=integer(found.get("started", 0), "$.started"),
        draining="draining" in found and boolean(found["draining"], "$.draining"),
        backlog="backlog" in found and boolean(found["backlog"], "$.backlog"),
    )


def says_occurred(raw: bytes) -> bool:
    """Whether bytes known to decode to an event are native JSON in canonical form, so that they can be used as the
    value of its `Occurred` without encoding. False when in doubt.
    """
    head = _OURS.match(raw)
    return head is not None and b"\\" not in raw and _NOT_OURS.search(raw, head.end()) is None


def _control(kind: str, ref: object, generation: int, body: dict[str, Any]) -> bytes:
    return native.dumps({"signal": kind, "schedule": str(ref), "generation": generation, **body})


def _key(key: bytes) -> str:
    try:
        return text(key.decode(), "$key")
    except UnicodeDecodeError as exc:
        raise DecodeError("$key", f"is not UTF-8: {exc}") from exc
