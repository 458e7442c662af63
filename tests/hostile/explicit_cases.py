"""Listed cases: those that once stopped everybody, and sizes that chance would not draw."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from tests.hostile.case import Act, Site
from tests.hostile.definition_cases import define, view_schedule
from tests.hostile.documents import Json, app, bundle, go, programs

_LISTENERS: Final = 20_000
_KEYS: Final = 100_000


def _per_of_many_keys(name: str) -> Act:
    async def act(site: Site) -> None:
        both = [{"type": "PARTITION", "dataset": f"{name}{each}", "numPartitions": 1} for each in "ab"]
        trigger = {"type": "PER", "trigger": {"type": "AND", "triggers": both}, "by": ["date"]}
        await site.ask("PUT", f"/v1/apps/default/{name}", app(name, {"trigger": trigger}, programs(name, site.far)[0]))
        keys = [f"date={n}" for n in range(_KEYS)]
        for each in "ab":
            await site.ask("POST", "/v1/events", _event(name, f"{name}{each}", keys))
        for view in ("", "/keys", "/why-not"):
            await site.ask("GET", f"/v1/schedules/default.{name}.s{view}")

    return act


def _waiting(*wanted: Json, **fields: Any) -> Callable[[str], Act]:
    """A job that is judged under these constraints."""

    def made(name: str) -> Act:
        async def act(site: Site) -> None:
            schedule = {"constraints": list(wanted), **fields}
            await define(site, name, app(name, schedule, programs(name, site.far)[0]))
            await asyncio.sleep(0.3)
            await view_schedule(site, f"default.{name}.s")

        return act

    return made


def _cdap_timeout(name: str) -> Act:
    async def act(site: Site) -> None:
        await site.ask("PUT", f"/v1/apps/default/{name}", app(name, {"trigger": go(name)}, programs(name, site.far)[0]))
        path = f"/v3/namespaces/default/apps/{name}/schedules/{name}c"
        body = {
            "name": f"{name}c",
            "program": {"programName": "p", "programType": "SPARK"},
            "trigger": {"type": "PARTITION", "dataset": {"dataset": f"{name}d"}, "numPartitions": 1},
            "constraints": [{"type": "CONCURRENCY", "maxConcurrency": 1, "waitUntilMet": True}],
            "timeoutMillis": 10**15,
        }
        await site.ask("PUT", path, body)
        await site.ask("POST", f"{path}/enable")
        await site.ask("POST", "/v1/events", bundle(name))
        await view_schedule(site, f"default.{name}.{name}c")

    return act


def _fan_out(name: str) -> Act:
    async def act(site: Site) -> None:
        listen = {"type": "PARTITION", "dataset": f"{name}d", "numPartitions": 10}
        schedules = [{"name": f"s{n}", "program": "p", "trigger": listen} for n in range(_LISTENERS)]
        body = {"programs": programs(name, site.far)[:1], "schedules": schedules}
        await site.ask("PUT", f"/v1/apps/default/{name}", body)
        await site.ask("POST", "/v1/events", _event(name, f"{name}d", ["date=1"]))
        await site.ask("GET", "/v1/schedules?limit=10")

    return act


def _columns(name: str) -> Act:
    async def act(site: Site) -> None:
        listen = {"type": "PARTITION", "dataset": f"{name}d", "numPartitions": 1, "match": {"c5": {"glob": "*"}}}
        await site.ask("PUT", f"/v1/apps/default/{name}", app(name, {"trigger": listen}, programs(name, site.far)[0]))
        partition = {"values": {f"c{n}": "v" for n in range(_KEYS)}}
        await site.ask("POST", "/v1/events", _event(name, f"{name}d", [partition]))
        await view_schedule(site, f"default.{name}.s")

    return act


def _globs(name: str) -> Act:
    """A pattern that backtracks, on a text that nearly fits."""

    async def act(site: Site) -> None:
        listen = {"type": "EVENT", "event": f"{name}go", "match": {"by": {"glob": "*a" * 40 + "b"}}}
        await site.ask("PUT", f"/v1/apps/default/{name}", app(name, {"trigger": listen}, programs(name, site.far)[0]))
        event = {**_event(name, "x", []), "type": "custom"}
        event["data"] = {"name": f"{name}go", "attributes": {"by": "a" * 50_000}}
        await site.ask("POST", "/v1/events", event)

    return act


def _triggers_deep(name: str) -> Act:
    async def act(site: Site) -> None:
        trigger: Json = go(name)
        for n in range(98):
            other = {"type": "PARTITION", "dataset": f"{name}d{n}", "numPartitions": 1}
            trigger = {"type": ("AND", "OR")[n % 2], "triggers": [trigger, other]}
        await define(site, name, app(name, {"trigger": trigger}, programs(name, site.far)[0]))

    return act


def _triggers_wide(name: str) -> Act:
    async def act(site: Site) -> None:
        some = [{"type": "PARTITION", "dataset": f"{name}d{n}", "numPartitions": 1} for n in range(5_000)]
        await define(site, name, app(name, {"trigger": {"type": "OR", "triggers": some}}, programs(name, site.far)[0]))
        await site.ask("POST", "/v1/events", [_event(f"{name}{n}", f"{name}d{n}", ["date=1"]) for n in range(200)])

    return act


def _every(interval: str, start: str, misfire: str) -> Callable[[str], Act]:
    def made(name: str) -> Act:
        async def act(site: Site) -> None:
            trigger = {"type": "EVERY", "interval": interval, "start": start}
            await define(site, name, app(name, {"trigger": trigger, "misfire": misfire}, programs(name, site.far)[0]))
            await asyncio.sleep(1)
            await site.ask("POST", f"/v1/schedules/default.{name}.s/pause", {"keep": True})

        return act

    return made


def _storm(name: str) -> Act:
    """A program that starts itself, twice each time, as quickly as it can."""

    async def act(site: Site) -> None:
        publish = {"name": "p", "type": "publish", "event": f"{name}go", "attributes": {"by": "ops"}}
        document = app(name, {"overlap": "queue"}, publish)
        document["schedules"].append({**document["schedules"][0], "name": "t"})
        await site.ask("PUT", f"/v1/apps/default/{name}", document)
        await site.ask("POST", "/v1/events", bundle(name)[:1])
        await asyncio.sleep(2)
        for each in "st":
            await site.ask("DELETE", f"/v1/schedules/default.{name}.{each}")

    return act


def _event(name: str, dataset: str, partitions: list[Any]) -> Json:
    now = datetime.now(UTC).isoformat()
    data = {"dataset": dataset, "partitions": partitions}
    return {"id": f"{name}-{dataset}", "source": "hostile", "time": now, "type": "partitions.added", "data": data}


#: What it does, how it is made of a name, and whether it is heavy.
LISTED: Final[tuple[tuple[str, Callable[[str], Act], bool], ...]] = (
    ("one event with 100,000 partition keys, correlated", _per_of_many_keys, False),
    ("DELAY of 10^15 ms", _waiting({"type": "DELAY", "millisAfterTrigger": 10**15}), False),
    ("timeoutMillis of 10^15", _cdap_timeout, False),
    ("timeout of 10^12 s", _waiting({"type": "DELAY", "delay": "1d"}, timeout="1000000000000s"), False),
    ("RATE per 4,000,000 days", _waiting({"type": "RATE", "maxRuns": 1, "per": "4000000d"}), False),
    ("LAST_RUN of 4,000,000 days", _waiting({"type": "LAST_RUN", "interval": "4000000d"}), False),
    ("weight of 2^32", _waiting({"type": "GROUP", "group": "h-wide", "limit": 2**33, "weight": 2**32}), False),
    ("pool of 2^40", _waiting({"type": "POOL", "pool": "h-pool", "size": 2**40}), False),
    ("concurrency of 2^70", _waiting({"type": "CONCURRENCY", "maxConcurrency": 2**70}), False),
    ("maxDuration of 4,000,000 days", _waiting(maxDuration="4000000d"), False),
    (
        "retries 4,000,000 days apart",
        _waiting(retry={"attempts": 2**40, "delay": "4000000d", "longest": "4000000d"}),
        False,
    ),
    ("deadline of 4,000,000 days", _waiting(deadlines=[{"type": "start-by", "within": "4000000d"}]), False),
    ("pauseAfter lasting 4,000,000 days", _waiting(pauseAfter={"failures": 1, "lasting": "4000000d"}), False),
    ("EVERY of 4,000,000 days", _every("4000000d", "2013-01-01T00:00:00+00:00", "one"), False),
    ("EVERY 1 ms since 2013, all of them", _every("1ms", "2013-01-01T00:00:00+00:00", "all"), False),
    ("EVERY 1 s since year 1, all of them", _every("1s", "0001-01-01T00:00:00+00:00", "all"), False),
    ("a pattern that backtracks", _globs, False),
    ("a partition of 100,000 columns", _columns, False),
    ("triggers 98 deep", _triggers_deep, False),
    ("a trigger of 5,000 leaves", _triggers_wide, False),
    ("a program that starts itself twice each time", _storm, False),
    ("a dataset with 20,000 listeners", _fan_out, True),
)
