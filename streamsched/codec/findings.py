"""Findings as records of topic `verdicts`: those of one turn on equal grounds together, so that one costs little more
than its event's id.

    {"v": 1, "findings": [{"verdict": text, …, "events": [id, source, id, source, …], "since"?: [ms, …]}, …]}

| verdict                                  | fields                                                           |
|------------------------------------------|------------------------------------------------------------------|
| `counted`, `unmatched`, `late`, …        | `schedule`, `generation`, `next`, `leaves`?, `cells`?, `late`?   |
| `duplicate`, `no_listener`               | `key`                                                            |
| `dead_lettered`                          | `place`, `path`, `reason`                                        |

`since` (milliseconds since the epoch) has one entry for each event of a `duplicate` (seen first) and of a late one
(happened). When it was found is the time of the record. Readers skip what they do not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, assert_never

import orjson

from streamsched.codec.scalar import LARGEST, integer, mapping, name, parsed, schedule, sequence, text
from streamsched.domain.errors import DecodeError
from streamsched.domain.finding import KNOWN_BY, AtSchedule, Finding, Ground, Repeated, Unheard, Unread, verdict_of
from streamsched.domain.lateness import OnLate
from streamsched.domain.verdict import Judged, Verdict

VERSION: Final = 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: As many events as one record tells of, and as many bytes as it has, if it can be cut: far below what any log takes
#: as one message.
EVENTS: Final = 1000
BYTES: Final = 256 << 10


class Group(NamedTuple):
    """Findings on equal grounds.

    Attributes:
        events: id, source, id, source, …
        since: milliseconds of each event, or nothing where the ground has no such time.
    """

    ground: Ground
    events: list[str]
    since: list[int]


def encode(groups: Iterable[Group]) -> Iterator[bytes]:
    """The values of the records that tell of them all, in order: as few as their bounds allow."""
    page: list[Group] = []
    room = EVENTS
    for group in groups:
        rest = _known_by(group)
        while len(rest.events) > 2 * room:
            head, rest = _cut(rest, room)
            yield from _written([*page, head])
            page, room = [], EVENTS
        page.append(rest)
        room -= len(rest.events) // 2
    if page:
        yield from _written(page)


def _known_by(group: Group) -> Group:
    if max(map(len, group.events)) <= KNOWN_BY:
        return group
    return group._replace(events=[text[:KNOWN_BY] for text in group.events])


def _cut(group: Group, events: int) -> tuple[Group, Group]:
    """Its first `events` and the others."""
    ground, said, since = group
    return Group(ground, said[: 2 * events], since[:events]), Group(ground, said[2 * events :], since[events:])


def _written(page: Sequence[Group]) -> Iterator[bytes]:
    """The page as one record, or as halves of it while it is too large."""
    raw = orjson.dumps({"v": VERSION, "findings": [_to_json(*group) for group in page if group.events]})
    if len(raw) <= BYTES or (len(page) == 1 and len(page[0].events) == 2):
        yield raw
    elif len(page) > 1:
        yield from _written(page[: len(page) // 2])
        yield from _written(page[len(page) // 2 :])
    else:
        for half in _cut(page[0], len(page[0].events) // 4):
            yield from _written([half])


def decode(raw: bytes, *, at: datetime) -> Iterator[Finding]:
    """The findings of a record that the log stamped `at` (UTC), in their order within each group.

    Raises:
        DecodeError: these bytes are no findings of a version we know; some may have been given before.
    """
    found = mapping(parsed(raw), "$")
    if (version := integer(found.get("v"), "$.v", minimum=1)) != VERSION:
        raise DecodeError("$.v", f"is version {version}; this code knows {VERSION}")
    for place, item in enumerate(sequence(found.get("findings"), "$.findings")):
        yield from _group(item, f"$.findings[{place}]", at)


def _to_json(ground: Ground, events: Sequence[str], since: Sequence[int]) -> dict[str, Any]:
    said: dict[str, Any] = {"verdict": verdict_of(ground).value, **ground_to_json(ground), "events": events}
    if since:
        said["since"] = since
    return said


def ground_to_json(ground: Ground) -> dict[str, Any]:
    """The fields of a ground, as the table above has them; which verdict it is stands beside them."""
    match ground:
        case AtSchedule(schedule=ref, generation=generation, next_job=number, judged=judged, late=late):
            said: dict[str, Any] = {"schedule": str(ref), "generation": generation, "next": number}
            if judged.leaves:
                said["leaves"] = judged.leaves
            if judged.cells:
                said["cells"] = judged.cells
            if late is not None:
                said["late"] = late.value
            return said
        case Repeated(key=key) | Unheard(key=key):
            return {"key": key}
        case Unread(place=place, path=path, reason=reason):
            return {"place": place, "path": path, "reason": reason}
        case _:
            assert_never(ground)


def _group(value: object, path: str, at: datetime) -> Iterator[Finding]:
    found = mapping(value, path)
    ground = _ground(found, path)
    events = sequence(found.get("events"), path, ".events")
    since = sequence(found.get("since", []), path, ".since")
    if len(events) % 2 or (since and 2 * len(since) != len(events)):
        raise DecodeError(f"{path}.events", "must be pairs of id and source, each with its `since` or none of them")
    for number in range(len(events) // 2):
        event, source = name(events[2 * number], path, ".events"), events[2 * number + 1]
        if source != "":
            name(source, path, ".events")
        yield Finding(event, source, at, ground, _instant(since[number], path) if since else None)


def _ground(found: Mapping[str, Any], path: str) -> Ground:
    said = text(found.get("verdict"), path, ".verdict")
    try:
        verdict = Verdict(said)
    except ValueError as exc:
        raise DecodeError(f"{path}.verdict", f"must be one of {', '.join(Verdict)} but is {said!r}") from exc
    match verdict:
        case Verdict.COUNTED | Verdict.UNMATCHED | Verdict.LATE | Verdict.DISABLED | Verdict.PARKED:
            return AtSchedule(
                schedule(found.get("schedule"), path, ".schedule"),
                integer(found.get("generation"), path, ".generation"),
                integer(found.get("next"), path, ".next"),
                Judged(verdict, _texts(found, path, "leaves"), _texts(found, path, "cells")),
                _late(found.get("late"), path),
            )
        case Verdict.DUPLICATE:
            return Repeated(text(found.get("key"), path, ".key"))
        case Verdict.NO_LISTENER:
            return Unheard(text(found.get("key"), path, ".key"))
        case Verdict.DEAD_LETTERED:
            return Unread(*(text(found.get(name), path, f".{name}") for name in ("place", "path", "reason")))
        case _:
            assert_never(verdict)


def _late(value: object, path: str) -> OnLate | None:
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
