"""Events with extremes: by HTTP in every dialect, and straight into the log."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from streamsched.domain.signals.home import home
from streamsched.log.topics import (
    DEAD_LETTER,
    EVENTS,
    LATE,
    LAUNCH,
    PARTITIONS,
    PROGRAM_STATUS,
    SIGNALS,
    STREAM_SIZES,
    VERDICTS,
    WAKEUPS,
)
from streamsched.ports.broker import Outgoing
from tests.faults.sites.installation_site import SHARDS
from tests.hostile.case import Made, Site
from tests.hostile.documents import Json, app, bundle, events, programs
from tests.hostile.extremes import EVERYTHING, drawn, worsened, written

#: Listens to what cases send, in every way in which an event can be counted.
HEARD: Final = "heard"
_CLOUD: Final = "application/cloudevents+json"
_MIB: Final = 1024 * 1024


def listeners() -> Json:
    """An app of schedules that listen to `heard`."""
    commits = {"type": "PARTITION", "dataset": HEARD, "numPartitions": 1}
    other = {"type": "PARTITION", "dataset": "heardtoo", "numPartitions": 1}
    custom = {"type": "EVENT", "event": HEARD}
    both = {"type": "AND", "triggers": [commits, other]}
    wanted = [
        commits,
        {**commits, "numPartitions": 1_000_000, "match": {"region": ["EU"]}},
        {"type": "PER", "trigger": commits, "by": ["date"]},
        {"type": "PER", "trigger": both, "by": ["date"]},
        {"type": "PER", "trigger": {"type": "WITHIN", "trigger": both, "duration": "1h"}, "by": ["date", "region"]},
        {"type": "PER", "trigger": {"type": "QUIET", "trigger": commits, "duration": "1s"}, "by": ["hour"]},
        {"type": "TOTAL", "dataset": HEARD, "measure": "bytes", "amount": 100},
        {"type": "TOTAL", "dataset": HEARD, "measure": "rows", "amount": 1 << 62},
        {"type": "STREAM_SIZE", "streamId": HEARD, "bytes": 100},
        {"type": "PROGRAM_STATUS", "programId": "other", "programStatuses": ["FAILED", "COMPLETED"]},
        {**custom, "match": {"by": {"glob": "*o*p*s*"}}},
        {"type": "QUIET", "trigger": custom, "duration": "1s"},
        {"type": "SILENCE", "of": custom, "duration": "2s"},
        {"type": "THEN", "first": custom, "second": commits, "within": "1h"},
    ]
    publish = {"type": "publish", "event": "heardsaid", "attributes": {}}
    return {
        "programs": [{"name": "p", **publish}, {"name": "other", **publish}],
        "schedules": [{"name": f"s{n}", "program": "p", "trigger": each} for n, each in enumerate(wanted)],
    }


def posted(name: str, rng: random.Random) -> Made:
    """One event, or a batch with good ones around it, one field or two of it an extreme."""
    event = rng.choice(events(name))
    wrong, said = worsened(event, rng, times=rng.choice((1, 1, 2)))
    content = _CLOUD if "specversion" in event else "application/json"
    batch = rng.random() < 0.3 and content != _CLOUD
    body = [*events(f"{name}x")[:2], wrong, *events(f"{name}y")[2:4]] if batch else wrong

    async def act(site: Site) -> None:
        await site.ask("POST", "/v1/events", body, headers={"content-type": content})
        await site.ask("GET", f"/v1/events/{name}e/verdicts")

    return f"{event.get('type') or event.get('notificationType')} with {said}" + (" in a batch" if batch else ""), act


def binary(name: str, rng: random.Random) -> Made:
    """A CloudEvent with its attributes in headers."""
    event = events(name)[7]
    attributes = {key: event[key] for key in ("specversion", "id", "source", "time", "type", "subject")}
    extreme = rng.choice(EVERYTHING)
    field = rng.choice(list(attributes))
    text = str(extreme.value)[:60_000]
    headers = {f"ce-{key}": value for key, value in attributes.items()} | {f"ce-{field}": text}
    raw = {key.encode(): value.encode("utf-8", "surrogatepass") for key, value in headers.items()}
    content = rng.choice(("text/plain", "application/octet-stream", "application/json"))

    async def act(site: Site) -> None:
        said = {key.decode(): value.decode("latin-1") for key, value in raw.items()} | {"content-type": content}
        await site.ask("POST", "/v1/events", event["data"], headers=said)

    return f"ce-{field} = {extreme.name}", act


def logged(name: str, rng: random.Random) -> Made:
    """An event with an extreme, or bytes that are none, written to a public topic."""
    topic = rng.choice((PARTITIONS, STREAM_SIZES, PROGRAM_STATUS, EVENTS))
    event = rng.choice(events(name))
    wrong, said = worsened(event, rng)
    value: bytes | None = written(wrong)
    if rng.random() < 0.4:
        value, said = rng.choice(BYTES)
    key = rng.choice((b"partition:default.heard", b"event:default.heard", b"", None, b"\0\xff", b"k" * 10_000))
    records = [Outgoing(topic, rng.randrange(SHARDS), key, value)]
    return f"{topic}, key {str(key)[:40]}: {said}", lambda site: site.append(records)


#: Bytes that no codec takes, or none should.
BYTES: Final[Sequence[tuple[bytes | None, str]]] = (
    (None, "a tombstone"),
    (b"", "nothing"),
    (b"\xff\xfe\x00garbage", "broken UTF-8"),
    (b"\0" * 1000, "NULs"),
    (b"null", "null"),
    (b"[]", "an empty list"),
    (b"{}", "an empty object"),
    (b"[" * 100_000 + b"]" * 100_000, "lists 100,000 deep"),
    (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "objects 50,000 deep"),
    (b"1" * 100_000, "a number of 100,000 digits"),
    (b"\xef\xbb\xbf{}", "a byte order mark"),
    (b'"' + b"x" * 900_000 + b'"', "a text of 900 kB"),
    (b"[" + b"null," * 150_000 + b"null]", "150,000 nulls"),
)

_INTERNAL: Final[dict[str, Json]] = {
    "put": {
        "signal": "put",
        "schedule": "default.{}.s",
        "generation": 5,
        "enabled": True,
        "trigger": {"type": "EVENT", "event": "{}go"},
        "consumption": "cumulative",
        "keep": True,
        "late": {"after": "1h", "then": "drop"},
        "started": 3,
    },
    "subscribe": {"signal": "subscribe", "schedule": "default.{}.s", "generation": 5},
    "unsubscribe": {"signal": "unsubscribe", "schedule": "default.{}.s", "generation": 5},
    "drop": {"signal": "drop", "schedule": "default.{}.s", "generation": 5},
    "replay": {"signal": "replay", "schedule": "default.{}.s", "generation": 5},
    "woken": {
        "signal": "woken",
        "schedule": "default.{}.s",
        "generation": 5,
        "cell": "x",
        "due_at": "2026-01-01T00:00:00Z",
    },
    "occurred": {
        "id": "{}x",
        "source": "y",
        "time": "2026-01-01T00:00:00Z",
        "type": "custom",
        "data": {"name": "default.{}go", "attributes": {"by": "ops"}},
        "delay": 1000,
    },
    "launch": {
        "v": 1,
        "schedule": "default.{}.s",
        "generation": 1,
        "sequence": 9,
        "satisfied_at": "2026-01-01T00:00:00Z",
        "key": "k",
        "events": [
            {
                "id": "x",
                "source": "y",
                "time": "2026-01-01T00:00:00Z",
                "type": "custom",
                "data": {"name": "default.{}go", "attributes": {}},
            }
        ],
        "contributions": [{"leaf": "event:default.{}go", "count": 1, "events": [0]}],
    },
    "wake": {"schedule": "default.{}.s", "generation": 1, "cell": "x", "at": "2026-01-01T00:00:00Z"},
}


def internal(name: str, rng: random.Random) -> Made:
    """Garbage, or an extreme in what looks like one of ours, in an internal topic."""
    topic = rng.choice((SIGNALS, SIGNALS, LAUNCH, LAUNCH, WAKEUPS, VERDICTS, LATE, DEAD_LETTER))
    if rng.random() < 0.5:
        value, said = rng.choice([each for each in BYTES if each[0] is not None])
    else:
        kind = rng.choice(list(_INTERNAL))
        document = _filled(_INTERNAL[kind], name)
        wrong, said = worsened(document, rng)
        value, said = written(wrong), f"{kind} with {said}"
    key = rng.choice((f"schedule:default.{name}.s", f"event:default.{name}go", "", "nonsense", f"default.{name}.s.5.9"))
    partition = home(key, SHARDS) if rng.random() < 0.7 else rng.randrange(SHARDS)
    records = [Outgoing(topic, partition, key.encode(), value)]

    async def act(site: Site) -> None:
        trigger = {"type": "EVENT", "event": f"{name}go"}
        await site.ask("PUT", f"/v1/apps/default/{name}", app(name, {"trigger": trigger}, programs(name, site.far)[0]))
        await site.append(records)
        await site.ask("POST", "/v1/events", bundle(name))
        for view in ("", "/keys", "/why-not"):
            await site.ask("GET", f"/v1/schedules/default.{name}.s{view}")

    return f"{topic}, key {key!r}: {said}", act


def _filled(document: Any, name: str) -> Any:
    match document:
        case dict():
            return {key: _filled(value, name) for key, value in document.items()}
        case list():
            return [_filled(value, name) for value in document]
        case str():
            return document.replace("{}", name)
        case _:
            return document


def many(name: str, rng: random.Random) -> Made:
    """One event of much: keys, columns, a long name, a large body."""
    kind = rng.choice(("keys", "columns", "attributes", "same", "bytes", "over", "events", "count"))
    now = datetime.now(UTC).isoformat()
    amount = rng.choice((1_000, 10_000, 100_000))
    data: Json = {"dataset": HEARD, "partitions": []}
    body: Any = {"id": f"{name}m", "source": "hostile", "time": now, "type": "partitions.added", "data": data}
    match kind:
        case "keys":
            data["partitions"] = [{"key": f"date={name}-{n}"} for n in range(amount)]
        case "columns":
            data["partitions"] = [{"values": {"date": name, **{f"c{n}": "v" for n in range(amount)}}}]
        case "attributes":
            attributes = {f"a{n}": "v" for n in range(amount)}
            body |= {"type": "custom", "data": {"name": HEARD, "attributes": attributes}}
        case "same":
            data["partitions"] = [f"date={name}"] * amount
        case "bytes":
            data["partitions"] = [{"key": "date=" + "k" * amount * 9}]
        case "over":
            body["source"], amount = "s" * (17 * _MIB), 17 * _MIB
        case "events":
            amount //= 10
            body = [{**body, "id": f"{name}m{n}", "data": {"dataset": HEARD, "count": 1}} for n in range(amount)]
        case _:
            data["count"], amount = drawn(1, rng).value, 1

    async def act(site: Site) -> None:
        await site.ask("POST", "/v1/events", body, params={"check": "none"})

    return f"an event of {amount:,} ({kind})", act
