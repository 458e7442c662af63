"""Requests with hostile addresses, parameters, headers and bodies, to every route of the API."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final
from urllib.parse import quote

from streamsched.api import health
from streamsched.api.routes import (
    apps,
    backfills,
    changes,
    events,
    graphs,
    jobs,
    preferences,
    programs,
    runs,
    schedules,
    submissions,
    ticks,
    verdicts,
)
from streamsched.api.routes.limits import clusters, groups, pools
from streamsched.api.routes.tasks import lanes, queues, tasks
from streamsched.parts import additions
from tests.hostile.case import Made, Site
from tests.hostile.event_cases import BYTES
from tests.hostile.extremes import DURATIONS, EVERYTHING, INSTANTS, NUMBERS, TEXTS, Raw, written

_MIB: Final = 1024 * 1024
_PARAMETERS: Final = (
    "limit",
    "after",
    "n",
    "since",
    "until",
    "state",
    "schedule",
    "program",
    "namespace",
    "tail",
    "keep",
)
_KINDS: Final = ("application/json", "text/plain", "application/cloudevents-batch+json", "multipart/form-data", "a/b;;")


@cache
def routes() -> tuple[tuple[str, str], ...]:
    """(Method, pattern of the path) of each."""
    of_catalog, of_limits = (apps, changes, programs, preferences, schedules, ticks), (groups, pools, clusters)
    of_work = jobs, runs, submissions, backfills, graphs, lanes, queues, tasks
    modules = (events, verdicts, *of_catalog, *of_work, *of_limits, health)
    all_routes = (*(module.routes for module in modules), *(found for _, found in additions("routes")))
    found = [route for some in all_routes for route in some]
    return tuple((route.method, route.pattern) for route in found if not route.path.startswith("/health"))


def address(name: str, rng: random.Random) -> Made:
    """An extreme in an address, and in a parameter."""
    method, pattern = rng.choice(routes())
    extreme = rng.choice((*TEXTS, *NUMBERS))
    text = extreme.value.text if isinstance(extreme.value, Raw) else str(extreme.value)
    chosen = _filled(pattern, name, quote(text.encode("utf-8", "surrogatepass")[:60_000], safe=""), rng)
    some = (*NUMBERS, *INSTANTS, *DURATIONS, *TEXTS)
    asked = {rng.choice(_PARAMETERS): rng.choice(some) for _ in range(rng.choice((0, 1, 2)))}
    query = "&".join(f"{key}={quote(_text(each.value)[:20_000], safe='')}" for key, each in asked.items())
    url = f"{chosen}?{query}" if query else chosen

    async def act(site: Site) -> None:
        await site.ask(method, url, raw=b"" if method == "GET" else b"{}")

    reported = "".join(f", {key}={each.name}" for key, each in asked.items())
    return f"{method} {pattern} with {extreme.name}{reported}", act


def body(name: str, rng: random.Random) -> Made:
    """Bytes that are no body of the route, though perhaps JSON."""
    method, pattern = rng.choice([each for each in routes() if each[0] != "GET"])
    made: Callable[[], bytes]
    if rng.random() < 0.4:
        extreme = rng.choice(EVERYTHING)
        made, said = partial(written, extreme.value), extreme.name
    elif rng.random() < 0.4:
        made, said = rng.choice(_LARGE)
    else:
        raw, said = rng.choice(BYTES)
        made = partial(bytes, raw or b"")
    chosen = _filled(pattern, name, f"default.{name}.s", rng)
    content = rng.choice((*_KINDS, *_KINDS[:1] * 4))

    async def act(site: Site) -> None:
        await site.ask(method, chosen, raw=made(), headers={"content-type": content})

    return f"{method} {pattern} ({content}): {said}", act


#: Made when they are needed: 80 MB.
_LARGE: Final[tuple[tuple[Callable[[], bytes], str], ...]] = (
    (lambda: b'{"a":"' + b"x" * (16 * _MIB - 8) + b'"}', "a text of 16 MiB"),
    (lambda: b"[" + b"0," * (8 * _MIB - 1) + b"0]", "16 MiB of zeros in a list"),
    (lambda: b"[" + b'{"a":1},' * (2 * _MIB - 2) + b"{}]", "16 MiB of small objects"),
    (lambda: b"[" * (8 * _MIB) + b"]" * (8 * _MIB), "lists 8,388,608 deep"),
    (lambda: b" " * (16 * _MIB), "16 MiB of blanks"),
    (lambda: b'{"programs":{' + b",".join(b'"p%d":{}' % n for n in range(200_000)) + b"}}", "200,000 programs"),
    (lambda: b"x" * (17 * _MIB), "17 MiB"),
)


def _filled(pattern: str, name: str, extreme: str, rng: random.Random) -> str:
    """The path with the extreme in one of its parameters, names of the case in the others."""
    parts = pattern.split("/")
    holes = [place for place, part in enumerate(parts) if part.startswith("{")]
    for place in holes:
        parts[place] = {"{namespace}": "default", "{order}": "hold", "{category}": "spark"}.get(parts[place], name)
    if holes:
        parts[rng.choice(holes)] = extreme
    return "/".join(parts)


def _text(value: Any) -> str:
    text = value.text if isinstance(value, Raw) else str(value)
    return text.encode("utf-8", "replace").decode()
