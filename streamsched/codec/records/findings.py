"""Findings as records of topic `verdicts`: those of one turn with equal reasons are grouped, so that each adds little
more than its event's id.

    {"v": 1, "findings": [{"verdict": text, …, "events": [id, source, id, source, …], "since"?: [ms, …]}, …]}

| verdict                                  | fields                                                           |
|------------------------------------------|------------------------------------------------------------------|
| `counted`, `unmatched`, `late`, …        | `schedule`, `generation`, `next`, `leaves`?, `cells`?, `late`?,  |
|                                          | `why`?                                                           |
| `duplicate`, `no_listener`               | `key`                                                            |
| `dead_lettered`                          | `place`, `path`, `reason`                                        |

`since` (milliseconds since the epoch) has one entry for each event of a `duplicate` (first seen) and of a late one
(happened). The time of the verdict is that of the record. Readers ignore unknown fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, assert_never

import orjson

from streamsched.codec.json.scalar import LARGEST, integer, mapping, name, parse, schedule, sequence, text
from streamsched.codec.shape import schemas
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.lateness import OnLate
from streamsched.domain.signals.finding import (
    KNOWN_BY,
    AtSchedule,
    Duplicate,
    Finding,
    FindingReason,
    NoListener,
    Undecodable,
    verdict_of,
)
from streamsched.domain.signals.verdict import JudgedEvent, Verdict

VERSION: Final = 1
#: Of what `reason_to_json` writes.
REASON: Final = schemas.answer(
    {},
    {
        "schedule": schemas.any_text("default.flights.weekly"),
        "generation": schemas.integer(1),
        "next": schemas.integer(1),
        "leaves": schemas.anything([]),
        "cells": schemas.anything([]),
        "why": schemas.anything(),
        "late": schemas.anything(),
        "key": schemas.any_text("partition:default.flights"),
        "place": schemas.any_text(),
        "path": schemas.any_text(),
        "reason": schemas.any_text(),
    },
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: Most events of one record, and its maximum size in bytes unless a single event is larger: far below the maximum
#: message size of any log.
EVENTS: Final = 1000
BYTES: Final = 256 << 10


class FindingGroup(NamedTuple):
    """Findings with equal reasons.

    Attributes:
        events: id, source, id, source, …
        since: milliseconds for each event; empty when the reason has no such time.
    """

    reason: FindingReason
    events: list[str]
    since: list[int]


def encode(groups: Iterable[FindingGroup]) -> Iterator[bytes]:
    """The values of the records for all groups, in order: as few records as their bounds allow."""
    page: list[FindingGroup] = []
    room = EVENTS
    for group in groups:
        rest = _shorten(group)
        while len(rest.events) > 2 * room:
            head, rest = _cut(rest, room)
            yield from _write_page([*page, head])
            page, room = [], EVENTS
        page.append(rest)
        room -= len(rest.events) // 2
    if page:
        yield from _write_page(page)


def _shorten(group: FindingGroup) -> FindingGroup:
    if max(map(len, group.events)) <= KNOWN_BY:
        return group
    return group._replace(events=[text[:KNOWN_BY] for text in group.events])


def _cut(group: FindingGroup, events: int) -> tuple[FindingGroup, FindingGroup]:
    """The first `events` events and the rest."""
    reason, pairs, since = group
    return FindingGroup(reason, pairs[: 2 * events], since[:events]), FindingGroup(
        reason, pairs[2 * events :], since[events:]
    )


def _write_page(page: Sequence[FindingGroup]) -> Iterator[bytes]:
    """The page as one record; halved while it is too large."""
    raw = orjson.dumps({"v": VERSION, "findings": [_to_json(*group) for group in page if group.events]})
    if len(raw) <= BYTES or (len(page) == 1 and len(page[0].events) == 2):
        yield raw
    elif len(page) > 1:
        yield from _write_page(page[: len(page) // 2])
        yield from _write_page(page[len(page) // 2 :])
    else:
        for half in _cut(page[0], len(page[0].events) // 4):
            yield from _write_page([half])


def decode(raw: bytes, *, at: datetime) -> Iterator[Finding]:
    """Decodes the findings of a record with log time `at` (UTC), in order within each group.

    Raises:
        DecodeError: the bytes are not findings of a known version; findings before the error were yielded already.
    """
    found = mapping(parse(raw), "$")
    if (version := integer(found.get("v"), "$.v", minimum=1)) != VERSION:
        raise DecodeError("$.v", f"is version {version}; this code knows {VERSION}")
    for place, item in enumerate(sequence(found.get("findings"), "$.findings")):
        yield from _group(item, f"$.findings[{place}]", at)


def _to_json(reason: FindingReason, events: Sequence[str], since: Sequence[int]) -> dict[str, Any]:
    found: dict[str, Any] = {"verdict": verdict_of(reason).value, **reason_to_json(reason), "events": events}
    if since:
        found["since"] = since
    return found


def reason_to_json(reason: FindingReason) -> dict[str, Any]:
    """The fields of a reason, as in the table above, without the verdict."""
    match reason:
        case AtSchedule(schedule=ref, generation=generation, next_job=number, judged=judged, late=late):
            found: dict[str, Any] = {"schedule": str(ref), "generation": generation, "next": number}
            if judged.leaves:
                found["leaves"] = judged.leaves
            if judged.cells:
                found["cells"] = judged.cells
            if judged.why:
                found["why"] = judged.why
            if late is not None:
                found["late"] = late.value
            return found
        case Duplicate(key=key) | NoListener(key=key):
            return {"key": key}
        case Undecodable(place=place, path=path, reason=why):
            return {"place": place, "path": path, "reason": why}
        case _:
            assert_never(reason)


def _group(value: object, path: str, at: datetime) -> Iterator[Finding]:
    found = mapping(value, path)
    reason = _reason(found, path)
    events = sequence(found.get("events"), path, ".events")
    since = sequence(found.get("since", []), path, ".since")
    if len(events) % 2 or (since and 2 * len(since) != len(events)):
        raise DecodeError(f"{path}.events", "must be pairs of id and source, each with its `since` or none of them")
    for number in range(len(events) // 2):
        event, source = name(events[2 * number], path, ".events"), events[2 * number + 1]
        if source != "":
            name(source, path, ".events")
        yield Finding(event, source, at, reason, _instant(since[number], path) if since else None)


def _reason(found: Mapping[str, Any], path: str) -> FindingReason:
    given = text(found.get("verdict"), path, ".verdict")
    try:
        verdict = Verdict(given)
    except ValueError as exc:
        raise DecodeError(f"{path}.verdict", f"must be one of {', '.join(Verdict)} but is {given!r}") from exc
    match verdict:
        case (
            Verdict.COUNTED
            | Verdict.REPLACED
            | Verdict.CORRECTION
            | Verdict.UNMATCHED
            | Verdict.LATE
            | Verdict.DISABLED
            | Verdict.REFUSED
            | Verdict.PARKED
        ):
            why = text(found["why"], path, ".why") if "why" in found else ""
            return AtSchedule(
                schedule(found.get("schedule"), path, ".schedule"),
                integer(found.get("generation"), path, ".generation"),
                integer(found.get("next"), path, ".next"),
                JudgedEvent(verdict, _texts(found, path, "leaves"), _texts(found, path, "cells"), why),
                _read_late(found.get("late"), path),
            )
        case Verdict.DUPLICATE:
            return Duplicate(text(found.get("key"), path, ".key"))
        case Verdict.NO_LISTENER:
            return NoListener(text(found.get("key"), path, ".key"))
        case Verdict.DEAD_LETTERED:
            return Undecodable(*(text(found.get(name), path, f".{name}") for name in ("place", "path", "reason")))
        case _:
            assert_never(verdict)


def _read_late(value: object, path: str) -> OnLate | None:
    for policy in OnLate:
        if policy.value == value:
            return policy
    if value is None:
        return None
    raise DecodeError(f"{path}.late", f"must be one of {', '.join(OnLate)} but is {text(value, path, '.late')!r}")


def _texts(found: Mapping[str, Any], path: str, field: str) -> tuple[str, ...]:
    listed = sequence(found.get(field, []), path, f".{field}")
    for item in listed:
        if type(item) is not str:
            raise DecodeError(f"{path}.{field}", "must be texts")
    return tuple(listed)


def _instant(value: object, path: str) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=integer(value, path, ".since", minimum=-LARGEST))
    except OverflowError as exc:
        raise DecodeError(f"{path}.since", f"is no time: {value!r}") from exc
