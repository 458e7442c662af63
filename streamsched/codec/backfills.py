"""Requests for backfills as JSON, of the API and as they are stored.

    {"from": text, "to": text}                                             ticks of a clock, or
    {"keys": {column: "2013-01-01..2013-01-31" | [value, …], …}}           keys, or
    {"dataset": name, "partitions": [{"key", "values"?, "bytes"?, "rows"?} | key, …]}
    and "only"?, "order"?, "maxActive"?, "maxFailures"?, "mute"?, "arguments"?, "reason"?, "confirmed"?

Partitions are stored as their number and a digest: the items have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from streamsched.codec.events.native import dumps, fact_from_json, fact_to_json, to_plain
from streamsched.codec.json.reading import Fields, kind
from streamsched.codec.shape.about import REASON, About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import array, extend, object_by_name, one_of, record, text
from streamsched.domain.backfills.key_values import KeyValues, NumberRange, PeriodRange, parse_values
from streamsched.domain.backfills.request import (
    MOST_ACTIVE,
    MOST_FAILURES,
    MOST_ITEMS,
    BackfillRequest,
    KeySpan,
    PartitionSpan,
    Span,
    TickSpan,
)
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import PartitionsAdded
from streamsched.domain.limits import MOST_PARTS, check_most
from streamsched.domain.names import DatasetRef, ScheduleRef

_PARTITIONS: Final = "partitions.added"
_ABOUT: Final = {
    "max_active": About(4, least=1, most=MOST_ACTIVE),
    "muted": About(False, name="mute"),
    "arguments": About("2026-03-01", "They override all others."),
    "reason": REASON,
    "max_failures": About(20, most=MOST_FAILURES),
    "confirmed": About(False),
}
#: Of a request, besides its span.
OPTIONS: Final = JsonShape(BackfillRequest, outside=("schedule", "token", "span"), about=_ABOUT)
_VALUES: Final = one_of(text("2013-01-01..2013-01-31"), array(text("AA")))
_SPAN: Final = {
    "from": text("2026-03-01"),
    "to": text("2026-03-07"),
    "keys": object_by_name(_VALUES, "day"),
    "dataset": text("default.flights"),
    "partitions": array(one_of(text("day=2026-03-01"), {"type": "object"})),
}
NEW: Final = NamedSchema(
    "NewBackfill",
    lambda: {
        **extend(record({}, _SPAN), OPTIONS.body_schema()),
        "description": "One span: `from` and `to`, or `keys`, or `dataset` and `partitions`.",
        "examples": [{"from": "2026-03-01", "to": "2026-03-07", "maxActive": 4, "reason": "the feed was down"}],
    },
)
_STORED: Final = JsonShape(BackfillRequest, outside=("schedule", "token", "span", "confirmed"), about=_ABOUT)


def request_from_json(schedule: ScheduleRef, token: str, body: Mapping[str, Any]) -> BackfillRequest:
    """Decodes a request of the API.

    Raises:
        InvalidError: a field is wrong; has its path.
    """
    fields = Fields(body)
    span = _span(fields, schedule)
    fields.ignore(*OPTIONS.names)
    options = OPTIONS.read_fields(fields.raw())
    fields.check_all_read()
    return BackfillRequest(schedule, token, span, **options)


def request_to_json(request: BackfillRequest) -> dict[str, Any]:
    """What was asked for, as it is stored and shown; equal for requests that ask for the same."""
    return {**_span_to_json(request.span), **_STORED.write(request)}


def same_request(stored: Mapping[str, Any], request: BackfillRequest) -> bool:
    """Whether a stored request asks for the same; the reason may differ."""
    return {**stored, "reason": ""} == {
        **to_plain(request_to_json(request)),
        "reason": "",
    }


def _span(fields: Fields, schedule: ScheduleRef) -> Span:
    given = [name for name in ("from", "to", "keys", "dataset", "partitions") if fields.has(name)]
    if given in (["from", "to"], ["from"], ["to"]):
        return TickSpan(fields.text("from"), fields.text("to"))
    if given == ["keys"]:
        inner = fields.object("keys")
        check_most(len(inner.names()), MOST_PARTS, "$.keys", "columns")
        if not inner.names():
            fields.fail("keys", "names no column")
        return KeySpan({name: _values(inner, name) for name in inner.names()})
    if given and set(given) <= {"dataset", "partitions"}:
        return _partitions(fields, schedule)
    raise DecodeError(
        "$",
        f"must have one span: `from` and `to`, or `keys`, or `dataset` and `partitions`; it has {_join_names(given)}",
    )


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names) or "none"


def _values(fields: Fields, name: str) -> KeyValues:
    value = fields.required_value(name)
    if isinstance(value, str):
        return parse_values(value, fields.path_of(name))
    if not isinstance(value, list):
        fields.fail(name, f"must be a text or a list of texts but is {kind(value)}")
    values = fields.text_list(name)
    check_most(len(values), MOST_ITEMS, fields.path_of(name), "values")
    return KeyValues((values,))


def _partitions(fields: Fields, schedule: ScheduleRef) -> PartitionSpan:
    dataset = DatasetRef.parse(fields.text("dataset"), schedule.namespace)
    listed = [value for value, _ in fields.list("partitions")]
    check_most(len(listed), MOST_ITEMS, "$.partitions", "partitions")
    if not listed:
        fields.fail("partitions", "is empty")
    try:
        fact = fact_from_json(_PARTITIONS, {"dataset": str(dataset), "partitions": listed}, "$")
    except DecodeError as exc:
        raise DecodeError(exc.path.replace("$.data.", "$.", 1), exc.reason) from exc
    assert isinstance(fact, PartitionsAdded)
    return PartitionSpan(dataset, fact.partitions)


def _span_to_json(span: Span) -> dict[str, Any]:
    match span:
        case TickSpan(begin=begin, end=end):
            return {"from": begin, "to": end}
        case KeySpan(columns=columns):
            return {"keys": {name: _values_to_json(values) for name, values in columns.items()}}
        case PartitionSpan(dataset=dataset, partitions=partitions):
            _, data = fact_to_json(PartitionsAdded(dataset, partitions, len(partitions)))
            digest = sha256(dumps(data["partitions"])).hexdigest()
            return {"dataset": str(dataset), "partitions": {"count": len(partitions), "sha256": digest}}


def _values_to_json(values: KeyValues) -> list[str]:
    """Values and ranges, in order."""
    found: list[str] = []
    for part in values.parts:
        match part:
            case PeriodRange(first=first, last=last):
                found.append(f"{first.key}..{last.key}")
            case NumberRange(first=first, last=last, digits=digits):
                found.append(f"{first:0{digits}d}..{last:0{digits}d}")
            case _:
                found += part
    return found
