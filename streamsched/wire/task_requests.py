"""Registrations of tasks, and the stored options of a task, as JSON.

    {"key": "welcome", "lane": "customer-7", "due": "2026-03-01T06:00:00Z" | "after": "10m",
     "data": any JSON | "text": "…" | "base64": "…", "contentType": "application/json",
     "recurrence": {"rhythm": {"type": "TIME" | "EVERY", …}, "repeats": n, "until": instant | "ttl": "1d",
                    "misfire": "all" | "one" | "skip", "window": "6h"},
     "retry": {…}, "onExisting": "keep_started" | "refuse" | "overwrite"}

Only `key` is required. `ttl` counts from the due time, or from now without one.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import orjson

from streamsched.codec.json.reading import Fields, prefix_errors
from streamsched.codec.shape.about import REASON, About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import (
    anything,
    array,
    choice,
    duration,
    instant,
    integer,
    one_of,
    record,
    ref,
    text,
)
from streamsched.codec.triggers import time_leaf
from streamsched.domain.limits import add_duration
from streamsched.domain.schedules.schedule import Misfire
from streamsched.domain.tasks.recurrence import SHORTEST_TICK, Recurrence
from streamsched.domain.tasks.task import OnExisting, TaskRequest
from streamsched.domain.tasks.task_retry import TaskRetry
from streamsched.domain.time.duration import duration_text
from streamsched.domain.triggers.trigger import Cron, Every
from streamsched.wire.queues import RETRY

NEW_TASK: Final = NamedSchema(
    "NewTask",
    lambda: (
        record(
            {"key": text("welcome")},
            {
                "lane": text("customer-7"),
                "due": instant(),
                "after": duration("10m"),
                "data": anything({"to": "x"}),
                "text": text("hello"),
                "base64": text("aGVsbG8="),
                "contentType": text("application/json"),
                "recurrence": record(
                    {"rhythm": {"type": "object", "examples": [{"type": "EVERY", "interval": "1h"}]}},
                    {
                        "repeats": integer(10, least=1),
                        "until": instant(),
                        "ttl": duration("1d"),
                        "misfire": choice(Misfire),
                        "window": duration("6h"),
                    },
                ),
                "retry": ref("TaskRetry"),
                "onExisting": choice(OnExisting),
            },
        )
        | {"examples": [{"key": "welcome", "lane": "customer-7", "after": "10m", "data": {"to": "x"}}]}
    ),
    RETRY.parts,
)
NEW_TASKS: Final = NamedSchema("NewTasks", one_of(ref("NewTask"), array(ref("NewTask"), maxItems=1000)), [NEW_TASK])


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDue:
    """Another time of a task: at an instant, or after a duration."""

    due: datetime | None = None
    after: Annotated[timedelta | None, About("10m")] = None
    reason: Annotated[str, REASON] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOwner:
    """A process that delivers tasks."""

    id: Annotated[str, About("host-1")]
    url: Annotated[str, About("http://host:1234")]


DUE: Final = JsonShape(NewDue)
NEW_DUE: Final = NamedSchema("NewDue", lambda: {**DUE.body_schema(), "examples": [{"after": "10m"}]})
OWNER: Final = JsonShape(TaskOwner)

_JSON: Final = "application/json"


def request_from_json(fields: Fields, now: datetime) -> TaskRequest:
    """Decodes a registration made at `now`.

    Raises:
        DecodeError, InvalidDefinitionError: with the path of the field.
    """
    key, lane = fields.text("key"), fields.optional_text("lane") or ""
    due_at, after = fields.optional_instant("due"), fields.optional_duration("after")
    if after is not None:
        if due_at is not None:
            fields.fail("after", "and `due` exclude each other")
        due_at = add_duration(now, after)
    data, content_type = _data(fields)
    recurring = fields.optional_object("recurrence")
    recurrence = None if recurring is None else _recurrence(recurring, due_at or now)
    own = _retry(fields)
    on_existing = fields.optional_choice("onExisting", OnExisting) or OnExisting.KEEP_STARTED
    fields.check_all_read()
    with prefix_errors(fields.path):
        return TaskRequest(
            key=key,
            lane=lane,
            due_at=due_at,
            data=data,
            content_type=content_type,
            recurrence=recurrence,
            retry=own,
            on_existing=on_existing,
        )


def options_to_json(recurrence: Recurrence | None, retry: TaskRetry | None) -> dict[str, Any] | None:
    """The stored options of a task; None for a task without any."""
    if recurrence is None and retry is None:
        return None
    return {
        "recurrence": None if recurrence is None else _recurrence_to_json(recurrence),
        "retry": None if retry is None else RETRY.write(retry),
    }


def options_from_json(value: object) -> tuple[Recurrence | None, TaskRetry | None]:
    """The inverse of `options_to_json`.

    Raises:
        DecodeError, InvalidDefinitionError: it was stored by a later release.
    """
    if value is None:
        return None, None
    fields = Fields(value)
    recurring = fields.optional_object("recurrence")
    return None if recurring is None else _recurrence(recurring, None), _retry(fields)


def _retry(fields: Fields) -> TaskRetry | None:
    given = fields.optional_value("retry")
    return None if given is None else RETRY.read(given, fields.path_of("retry"))


def _data(fields: Fields) -> tuple[bytes, str]:
    """The data with its media type: at most one of `data`, `text` and `base64`."""
    given = [name for name in ("data", "text", "base64") if fields.has(name)]
    if len(given) > 1:
        fields.fail(given[1], f"and `{given[0]}` exclude each other")
    value, text, coded = fields.optional_value("data"), fields.optional_text("text"), fields.optional_text("base64")
    kind = fields.optional_text("contentType")
    if text is not None:
        return text.encode(errors="replace"), "text/plain; charset=utf-8" if kind is None else kind
    if coded is not None:
        try:
            return b64decode(coded, validate=True), "application/octet-stream" if kind is None else kind
        except (binascii.Error, ValueError):
            fields.fail("base64", "is not base64")
    if value is None:
        return b"", kind or ""
    return orjson.dumps(value), _JSON if kind is None else kind


def _recurrence_to_json(recurrence: Recurrence) -> dict[str, Any]:
    return {
        "rhythm": time_leaf.to_json(recurrence.rhythm),
        "repeats": recurrence.repeats,
        "until": None if recurrence.until is None else recurrence.until.isoformat(),
        "misfire": recurrence.misfire.value,
        "window": None if recurrence.window is None else duration_text(recurrence.window),
    }


def _recurrence(fields: Fields, from_: datetime | None) -> Recurrence:
    rhythm = _rhythm(fields.object("rhythm"))
    repeats, until = fields.optional_integer("repeats"), fields.optional_instant("until")
    ttl = fields.optional_duration("ttl")
    if ttl is not None:
        if until is not None or from_ is None:
            fields.fail("ttl", "and `until` exclude each other")
        until = add_duration(from_, ttl)
    misfire = fields.optional_choice("misfire", Misfire) or Misfire.ALL
    window = fields.optional_duration("window")
    fields.check_all_read()
    with prefix_errors(fields.path):
        return Recurrence(rhythm, repeats, until, misfire, window)


def _rhythm(fields: Fields) -> Cron | Every:
    match fields.text("type"):
        case "TIME":
            leaf: Cron | Every = time_leaf.cron(fields, None, shortest=SHORTEST_TICK)
        case "EVERY":
            leaf = time_leaf.every(fields, None)
        case _:
            fields.fail("type", "must be TIME or EVERY")
    fields.check_all_read()
    return leaf
